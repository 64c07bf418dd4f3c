/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's mallctl with wrong names, MIBs and lengths.
 */
#include "wrong.h"

#include "tests/jemalloc/claims.h"

CASE(name_null_len) {
    uint64_t v;
    say("%d", mallctl("stats.allocated", &v, NULL, NULL, 0));
}

CASE(name_old_null) {
    size_t n = 8;
    say("%d", mallctl("stats.allocated", NULL, &n, NULL, 0));
    say(" %zu", n);
}

CASE(len0) {
    size_t n = 0;
    uint64_t v = 7;
    say("%d", mallctl("stats.allocated", &v, &n, NULL, 0));
    say(" %zu", n);
    say(" %d", v == 7);
}

CASE(len4) {
    size_t n = 4;
    uint64_t v = ~0ull;
    say("%d", mallctl("stats.allocated", &v, &n, NULL, 0));
    say(" %zu", n);
    say(" %d", (int)(v >> 32 == 0xffffffff));
}

CASE(len16) {
    size_t n = 16;
    uint64_t v[2] = {0, 5};
    say("%d", mallctl("stats.allocated", v, &n, NULL, 0));
    say(" %zu", n);
    say(" %d", v[1] == 5);
}

CASE(write_ro) {
    uint64_t v = 1;
    say("%d", mallctl("stats.allocated", NULL, NULL, &v, 8));
}

CASE(write_ro_newlen) { say("%d", mallctl("stats.allocated", NULL, NULL, NULL, 8)); }

CASE(empty) { say("%d", mallctl("", NULL, NULL, NULL, 0)); }

CASE(dots) {
    say("%d", mallctl("..", NULL, NULL, NULL, 0));
    say(" %d", mallctl("stats.", NULL, NULL, NULL, 0));
    say(" %d", mallctl(".stats", NULL, NULL, NULL, 0));
}

CASE(partial) {
    say("%d", mallctl("stats", NULL, NULL, NULL, 0));
    say(" %d", mallctl("arena.0", NULL, NULL, NULL, 0));
}

CASE(toolong) {
    char name[5000];
    memset(name, 'a', 4999);
    name[4999] = 0;
    say("%d", mallctl(name, NULL, NULL, NULL, 0));
}

CASE(toodeep) {
    say("%d", mallctl("stats.arenas.0.bins.0.mutex.num_ops.x.y.z", NULL, NULL, NULL, 0));
}

CASE(epoch_short) {
    uint32_t v = 1;
    say("%d", mallctl("epoch", NULL, NULL, &v, 4));
}

CASE(epoch_new_null_len8) { say("%d", mallctl("epoch", NULL, NULL, NULL, 8)); }

CASE(mib_short) {
    size_t mib[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    size_t n = 1;
    say("%d", mallctlnametomib("stats.arenas.0.bins.1.nmalloc", mib, &n));
    say(" %zu", n);
    say(" %d", mib[1] == 9);
}

CASE(mib_zero) {
    size_t n = 0;
    size_t mib[2];
    say("%d", mallctlnametomib("stats.allocated", mib, &n));
    say(" %zu", n);
}

CASE(mib_long) {
    size_t mib[8];
    size_t n = 8;
    say("%d ", mallctlnametomib("stats.allocated", mib, &n));
    uint64_t v;
    size_t l = 8;
    mib[2] = 0;
    say("%d", mallctlbymib(mib, 3, &v, &l, NULL, 0));
}

CASE(mib_long2) {
    size_t mib[30] = {0};
    size_t n = 8;
    uint64_t v;
    size_t l = 8;
    mallctlnametomib("arenas.bin.0.size", mib, &n);
    say("%zu", n);
    say(" %d", mallctlbymib(mib, 30, &v, &l, NULL, 0));
    say(" %d", mallctlbymib(mib, n - 1, &v, &l, NULL, 0));
}

CASE(mib_wild) {
    size_t mib[2] = {SIZE_MAX, 5};
    uint64_t v;
    size_t l = 8;
    say("%d", mallctlbymib(mib, 2, &v, &l, NULL, 0));
}

CASE(mib_wild2) {
    size_t mib[2];
    size_t n = 2;
    uint64_t v;
    size_t l = 8;
    mallctlnametomib("stats.allocated", mib, &n);
    mib[1] = 1000000;
    say("%d", mallctlbymib(mib, 2, &v, &l, NULL, 0));
}

CASE(mib_wild_index) {
    size_t mib[8];
    size_t n = 8;
    uint64_t v;
    size_t l = 8;
    mallctlnametomib("arenas.bin.0.size", mib, &n);
    mib[2] = SIZE_MAX;
    say("%d", mallctlbymib(mib, n, &v, &l, NULL, 0));
}

CASE(bin_far) {
    size_t v, l = 8;
    say("%d", mallctl("arenas.bin.1000.size", &v, &l, NULL, 0));
    say(" %d", mallctl("arenas.lextent.1000.size", &v, &l, NULL, 0));
}

CASE(arena_far) {
    bool v = 3;
    size_t l = 1;
    say("%d", mallctl("arena.1000000.initialized", &v, &l, NULL, 0));
    say(" %d", mallctl("stats.arenas.100000.pactive", &v, &l, NULL, 0));
}

CASE(purge_args) {
    int v = 1;
    size_t n = 4;
    say("%d", mallctl("arena.0.purge", &v, &n, NULL, 0));
    say(" %d", mallctl("arena.0.purge", NULL, NULL, &v, 4));
}

CASE(create_short) {
    uint16_t v = 7;
    size_t n = 2;
    say("%d", mallctl("arenas.create", &v, &n, NULL, 0));
    say(" %zu", n);
    say(" %d", v);
}

CASE(create_null) { say("%d", mallctl("arenas.create", NULL, NULL, NULL, 0)); }

CASE(create_hooks_len) {
    unsigned a;
    size_t n = sizeof a;
    int x;
    say("%d", mallctl("arenas.create", &a, &n, &x, 4));
}

CASE(lookup_null) {
    unsigned a;
    size_t n = sizeof a;
    void *p = NULL;
    say("%d", mallctl("arenas.lookup", &a, &n, &p, sizeof p));
}

CASE(lookup_stack) {
    unsigned a;
    size_t n = sizeof a;
    void *p = &a;
    say("%d", mallctl("arenas.lookup", &a, &n, &p, sizeof p));
}

CASE(lookup_len) {
    unsigned a;
    size_t n = sizeof a;
    void *p = malloc(9);
    say("%d", mallctl("arenas.lookup", &a, &n, &p, 4));
}

CASE(thread_arena_far) {
    unsigned a = 12345;
    say("%d", mallctl("thread.arena", NULL, NULL, &a, sizeof a));
}

CASE(thread_arena_len) {
    uint64_t a = 0;
    say("%d", mallctl("thread.arena", NULL, NULL, &a, 8));
}

CASE(tcache_create_null) { say("%d", mallctl("tcache.create", NULL, NULL, NULL, 0)); }

CASE(tcache_create_len) {
    uint64_t v;
    size_t n = 8;
    say("%d", mallctl("tcache.create", &v, &n, NULL, 0));
    say(" %zu", n);
}

CASE(tcache_destroy_none) {
    unsigned t = 4000;
    say("%d", mallctl("tcache.destroy", NULL, NULL, &t, sizeof t));
}

CASE(tcache_destroy_nonew) {
    say("%d", mallctl("tcache.destroy", NULL, NULL, NULL, 0));
    say(" %d", mallctl("tcache.flush", NULL, NULL, NULL, 0));
}

CASE(tcache_twice) {
    unsigned t;
    size_t n = sizeof t;
    say("%d ", mallctl("tcache.create", &t, &n, NULL, 0));
    say("%d ", mallctl("tcache.destroy", NULL, NULL, &t, sizeof t));
    say("%d", mallctl("tcache.destroy", NULL, NULL, &t, sizeof t));
}

CASE(tcache_flush_minus) {
    unsigned t = (unsigned)-1;
    say("%d", mallctl("tcache.flush", NULL, NULL, &t, sizeof t));
}

CASE(decay_low) {
    int64_t v = -2;
    say("%d", mallctl("arenas.dirty_decay_ms", NULL, NULL, &v, 8));
    v = -1;
    say(" %d", mallctl("arenas.dirty_decay_ms", NULL, NULL, &v, 8));
    v = INT64_MAX;
    say(" %d", mallctl("arenas.dirty_decay_ms", NULL, NULL, &v, 8));
}

CASE(decay_len) {
    int v = 5;
    say("%d", mallctl("arenas.dirty_decay_ms", NULL, NULL, &v, 4));
}

CASE(decay_arena_far) {
    int64_t v = 5;
    say("%d", mallctl("arena.900.dirty_decay_ms", NULL, NULL, &v, 8));
}

CASE(bg_len) {
    int v = 1;
    say("%d", mallctl("background_thread", NULL, NULL, &v, 4));
}

CASE(bg_max) {
    size_t v = 0;
    say("%d", mallctl("max_background_threads", NULL, NULL, &v, 8));
    v = 100000;
    say(" %d", mallctl("max_background_threads", NULL, NULL, &v, 8));
}

CASE(dss_bad) {
    const char *s = "nonsense";
    say("%d", mallctl("arena.0.dss", NULL, NULL, &s, 8));
    s = "disabled";
    say(" %d", mallctl("arena.0.dss", NULL, NULL, &s, 8));
}

CASE(prof_dump) {
    say("%d", mallctl("prof.dump", NULL, NULL, NULL, 0));
    say(" %d", mallctl("prof.reset", NULL, NULL, NULL, 0));
}

CASE(version_len) {
    char v[3];
    size_t n = 3;
    say("%d", mallctl("version", v, &n, NULL, 0));
    say(" %zu", n);
}

CASE(thread_name) {
    const char *s = "x";
    say("%d", mallctl("thread.prof.name", NULL, NULL, &s, 8));
}

CASE(thread_idle) {
    int x = 1;
    say("%d", mallctl("thread.idle", NULL, NULL, NULL, 0));
    say(" %d", mallctl("thread.idle", NULL, NULL, &x, 4));
}

CASE(allocatedp_len) {
    uint32_t x;
    size_t n = 4;
    say("%d", mallctl("thread.allocatedp", &x, &n, NULL, 0));
    say(" %zu", n);
}

CASE(peak_write) {
    uint64_t x = 1;
    say("%d", mallctl("thread.peak.reset", NULL, NULL, &x, 8));
    say(" %d", mallctl("thread.peak.read", NULL, NULL, &x, 8));
}

CASE(mutexes_reset) {
    int x;
    say("%d", mallctl("stats.mutexes.reset", NULL, NULL, NULL, 0));
    say(" %d", mallctl("stats.mutexes.reset", NULL, NULL, &x, 4));
}

CASE(tcache_enabled_len) {
    int x = 1;
    say("%d", mallctl("thread.tcache.enabled", NULL, NULL, &x, 4));
}

CASE(old_len_mismatch_write) {
    int64_t v = 10, o;
    size_t n = 4;
    say("%d", mallctl("arenas.dirty_decay_ms", &o, &n, &v, 8));
    say(" %zu", n);
    n = 8;
    mallctl("arenas.dirty_decay_ms", &o, &n, NULL, 0);
    say(" %d", o == 10);
}
