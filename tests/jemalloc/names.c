/* SPDX-License-Identifier: MIT */
/*
 * mallctl: errors, MIBs, values that are written and read again; arenas.
 */
#include "claims.h"

#include <pthread.h>

static void errors_are_those_of_the_manual(void) {
    uint64_t epoch = 1;
    size_t length = sizeof epoch;
    size_t mib[7];
    size_t mib_length = 1;
    CLAIM(ACT("no_such_name") == ENOENT && ACT("stats") == ENOENT && ACT("") == ENOENT);
    CLAIM(ACT("stats.allocated.x") == ENOENT && ACT("arenas.bin.x.size") == ENOENT);
    CLAIM(ACT("arena.99999999999999999999.purge") == ENOENT && ACT(".") == ENOENT);
    CLAIM(mallctl("version", NULL, NULL, (void *)"0.0.0", 5) == EPERM);
    CLAIM(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch - 1) == EINVAL);
    CLAIM(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch + 1) == EINVAL);
    length = sizeof epoch - 1;
    CLAIM(mallctl("epoch", &epoch, &length, NULL, 0) == EINVAL && length == sizeof epoch - 1);
    length = sizeof epoch + 1;
    CLAIM(mallctl("epoch", &epoch, &length, NULL, 0) == EINVAL && length == sizeof epoch);
    CLAIM(mallctlnametomib("no_such_name", mib, &mib_length) == ENOENT);
    mib_length = 1;
    CLAIM(mallctlnametomib("version", mib, &mib_length) == 0 && mib_length == 1);
    CLAIM(mallctlbymib(mib, mib_length, NULL, NULL, (void *)"0.0.0", 5) == EPERM);
    CLAIM(mallctlbymib(mib, 0, NULL, NULL, NULL, 0) == ENOENT);
    CLAIM(ACT("epoch") == 0 && ACT("stats.allocated") == 0);
    uint64_t before = READ("epoch", uint64_t);
    length = sizeof before;
    epoch = 77;
    CLAIM(mallctl("epoch", &before, &length, &epoch, sizeof epoch) == 0);
    CLAIM(READ("epoch", uint64_t) == before);
}

static void mibs_may_be_partial(void) {
    size_t mib[5] = {42, 42, 42, 42, 42};
    size_t length = 3;
    CLAIM(mallctlnametomib("arenas.bin.0.nregs", mib, &length) == 0);
    CLAIM(length == 3 && mib[2] == 0 && mib[3] == 42);
    length = 4;
    CLAIM(mallctlnametomib("arenas.bin.0", mib, &length) == 0 && length == 3 && mib[3] == 42);
    CLAIM(mallctlbymib(mib, length, NULL, NULL, NULL, 0) == ENOENT);
    length = 5;
    CLAIM(mallctlnametomib("stats.arenas.0.bins.1.nmalloc", mib, &length) == 0 && length == 5);
    CLAIM(mib[2] == 0 && mib[4 - 1] != 42);
    length = 0;
    CLAIM(mallctlnametomib("version", mib, &length) == 0 && length == 0);
}

/* The manual's example. */
static void sizes_by_mib(void) {
    unsigned count = READ("arenas.nbins", unsigned);
    size_t mib[4];
    size_t mib_length = 4;
    size_t last = 0;
    CLAIM(mallctlnametomib("arenas.bin.0.size", mib, &mib_length) == 0);
    for (unsigned i = 0; i < count; i++) {
        size_t size;
        size_t length = sizeof size;
        mib[2] = i;
        CLAIM(mallctlbymib(mib, mib_length, &size, &length, NULL, 0) == 0 && size > last);
        CLAIM(nallocx(last + 1, 0) == size);
        last = size;
    }
    mib[2] = count + 1;
    CLAIM(mallctlbymib(mib, mib_length, NULL, NULL, NULL, 0) == ENOENT);
}

static void delays_are_written_and_read(const char *name, bool checks_arena) {
    ssize_t before = READ(name, ssize_t);
    CLAIM(WRITE(name, ssize_t, -2) == EFAULT && READ(name, ssize_t) == before);
    CLAIM(WRITE(name, ssize_t, 0x7fffffff) == 0);
    ssize_t last = 0x7fffffff;
    for (ssize_t value = -1; value < 20; value++) {
        ssize_t old;
        size_t length = sizeof old;
        CLAIM(mallctl(name, &old, &length, &value, sizeof value) == 0 && old == last);
        last = value;
    }
    CLAIM(READ(name, ssize_t) == 19 && WRITE(name, ssize_t, before) == 0);
    CLAIM(!checks_arena || WRITE("arena.4000.dirty_decay_ms", ssize_t, 1) == ENOENT);
}

static void actions_of_arenas(void) {
    unsigned count = READ("arenas.narenas", unsigned);
    const char *const names[] = {"arena.0.purge", "arena.0.decay"};
    for (size_t i = 0; i < 2; i++) {
        size_t mib[3];
        size_t length = 3;
        CLAIM(ACT(names[i]) == 0 && mallctlnametomib(names[i], mib, &length) == 0);
        mib[1] = count;
        CLAIM(mallctlbymib(mib, length, NULL, NULL, NULL, 0) == 0);
        mib[1] = ARENAS_ALL;
        CLAIM(mallctlbymib(mib, length, NULL, NULL, NULL, 0) == 0);
        mib[1] = count + 1;
        CLAIM(mallctlbymib(mib, length, NULL, NULL, NULL, 0) == ENOENT);
    }
    CLAIM(READ("arena.0.initialized", bool) && READ("arena.4096.initialized", bool));
    CLAIM(ACT("arena.0.reset") == EFAULT && ACT("arena.0.destroy") == EFAULT);
    const char *dss = READ("arena.0.dss", const char *);
    CLAIM(WRITE("arena.0.dss", const char *, "disabled") == 0);
    CLAIM(strcmp(READ("arena.0.dss", const char *), "disabled") == 0);
    CLAIM(WRITE("arena.0.dss", const char *, "none such") == EINVAL);
    CLAIM(WRITE("arena.0.dss", const char *, dss) == 0);
}

static void threads_choose(void) {
    bool is_on = false;
    bool old;
    size_t length = sizeof old;
    CLAIM(READ("thread.tcache.enabled", bool));
    CLAIM(mallctl("thread.tcache.enabled", &old, &length, &is_on, sizeof is_on) == 0 && old);
    free(malloc(1));
    is_on = true;
    CLAIM(mallctl("thread.tcache.enabled", &old, &length, &is_on, sizeof is_on) == 0 && !old);
    CLAIM(READ("thread.tcache.enabled", bool));
    CLAIM(ACT("thread.tcache.flush") == 0 && ACT("thread.idle") == 0);
    unsigned first = READ("thread.arena", unsigned);
    CLAIM(WRITE("thread.arena", unsigned, 0) == 0 && READ("thread.arena", unsigned) == 0);
    CLAIM(WRITE("thread.arena", unsigned, 4000) == EFAULT);
    CLAIM(WRITE("thread.arena", unsigned, first) == 0);
}

static void caches_have_identifiers(void) {
    unsigned caches[10];
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 10; i++) {
            caches[i] = READ("tcache.create", unsigned);
            for (unsigned j = 0; j < i; j++) {
                CLAIM(caches[i] != caches[j]);
            }
        }
        for (unsigned i = 0; i < 10; i++) {
            CLAIM(WRITE("tcache.flush", unsigned, caches[i]) == 0);
            CLAIM(WRITE("tcache.destroy", unsigned, caches[i]) == 0);
        }
    }
    unsigned none;
    size_t length = 8;
    CLAIM(mallctl("tcache.create", &none, &length, NULL, 0) == EINVAL && length == 0);
    CLAIM(ACT("tcache.flush") == EINVAL && WRITE("tcache.flush", uint64_t, 1) == EINVAL);
}

static void profiles_are_off(void) {
    bool old = true;
    bool is_on = true;
    size_t length = sizeof old;
    CLAIM(!READ("opt.prof", bool) && !READ("prof.active", bool));
    CLAIM(WRITE("prof.active", bool, true) == ENOENT);
    CLAIM(mallctl("prof.active", &old, &length, &is_on, sizeof is_on) == ENOENT && old);
    is_on = false;
    CLAIM(mallctl("prof.active", &old, &length, &is_on, sizeof is_on) == 0 && !old);
    CLAIM(ACT("prof.dump") == ENOENT && ACT("prof.reset") == ENOENT);
}

static size_t arena_figure(const char *figure, unsigned arena) {
    char name[80];
    (void)snprintf(name, sizeof name, "stats.arenas.%u.%s", arena, figure);
    return READ(name, size_t);
}

static int arena_action(const char *action, unsigned arena) {
    char name[80];
    (void)snprintf(name, sizeof name, "arena.%u.%s", arena, action);
    return ACT(name);
}

static void refresh(void) { CLAIM(WRITE("epoch", uint64_t, 1) == 0); }

static unsigned arena_of(void *block) {
    unsigned arena;
    size_t length = sizeof arena;
    CLAIM(mallctl("arenas.lookup", &arena, &length, &block, sizeof block) == 0);
    return arena;
}

static void arenas_are_created_and_destroyed(void) {
    unsigned before = READ("arenas.narenas", unsigned);
    unsigned arena = READ("arenas.create", unsigned);
    CLAIM(arena == before && READ("arenas.narenas", unsigned) == before + 1);
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    char *small = mallocx(100, flags);
    char *large = mallocx(300000, flags | MALLOCX_ZERO);
    CLAIM(small != NULL && large != NULL && is_filled(large, 0, 0, 300000));
    CLAIM(arena_of(small) == arena && arena_of(large) == arena && arena_of(malloc(1)) != arena);
    refresh();
    CLAIM(arena_figure("small.allocated", arena) == sallocx(small, 0));
    CLAIM(arena_figure("large.allocated", arena) == sallocx(large, 0));
    CLAIM(arena_figure("pactive", arena) > 0);
    small = rallocx(small, 200, flags);
    CLAIM(arena_of(small) == arena && sallocx(small, 0) == nallocx(200, flags));
    dallocx(large, MALLOCX_TCACHE_NONE);
    refresh();
    CLAIM(arena_figure("large.allocated", arena) == 0);
    CLAIM(arena_action("reset", arena) == 0);
    refresh();
    CLAIM(arena_figure("small.allocated", arena) == 0);
    for (size_t i = 0; i < 1000; i++) {
        CLAIM(mallocx(i * 100 + 1, flags) != NULL);
    }
    CLAIM(arena_action("destroy", arena) == 0);
    CLAIM(READ("arenas.create", unsigned) == arena); /* the index serves again */
    CLAIM(arena_action("destroy", arena) == 0);
}

static void *choose(void *argument) {
    unsigned arena = *(unsigned *)argument;
    unsigned old;
    size_t length = sizeof old;
    CLAIM(mallctl("thread.arena", &old, &length, &arena, sizeof arena) == 0);
    CLAIM(READ("thread.arena", unsigned) == arena);
    void *block = mallocx(64, MALLOCX_TCACHE_NONE);
    CLAIM(arena_of(block) == arena);
    return block;
}

static void threads_use_arenas(void) {
    unsigned arena = READ("arenas.create", unsigned);
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, choose, &arena) == 0);
        CLAIM(pthread_join(thread, &blocks[i]) == 0);
    }
    for (int i = 0; i < 4; i++) { /* of another thread, and the last one does not return */
        CLAIM(arena_of(blocks[i]) == arena);
        if (i != 3) {
            free(blocks[i]);
        }
    }
    CLAIM(ACT("thread.tcache.flush") == 0 && arena_action("destroy", arena) == 0);
}

static void figures_are_consistent(void) {
    void *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = malloc(i * 1000 + 1);
        memset(blocks[i], 1, i * 1000 + 1);
    }
    refresh();
    size_t allocated = READ("stats.allocated", size_t);
    size_t active = READ("stats.active", size_t);
    CLAIM(allocated > 4900000 && allocated <= active && active <= READ("stats.mapped", size_t));
    CLAIM(READ("stats.resident", size_t) >= active && READ("stats.metadata", size_t) > 0);
    CLAIM(arena_figure("pactive", ARENAS_ALL) * READ("arenas.page", size_t) == active);
    CLAIM(arena_figure("small.allocated", ARENAS_ALL) +
              arena_figure("large.allocated", ARENAS_ALL) ==
          allocated);
    uint64_t made = READ("stats.arenas.4096.small.nmalloc", uint64_t);
    CLAIM(made > 0 && READ("stats.arenas.4096.small.ndalloc", uint64_t) <= made);
    CLAIM(READ("stats.arenas.4096.nthreads", unsigned) > 0);
    for (size_t i = 0; i < 100; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    errors_are_those_of_the_manual();
    mibs_may_be_partial();
    sizes_by_mib();
    delays_are_written_and_read("arena.0.dirty_decay_ms", true);
    delays_are_written_and_read("arena.0.muzzy_decay_ms", false);
    delays_are_written_and_read("arenas.dirty_decay_ms", false);
    delays_are_written_and_read("arenas.muzzy_decay_ms", false);
    actions_of_arenas();
    threads_choose();
    caches_have_identifiers();
    profiles_are_off();
    arenas_are_created_and_destroyed();
    threads_use_arenas();
    figures_are_consistent();
    return 0;
}
