/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's arenas, and its calls for blocks with wrong flags, sizes and pointers.
 */
#include "wrong.h"

#include "tests/jemalloc/claims.h"

static unsigned new_arena(void) {
    unsigned a = 0;
    size_t n = sizeof a;
    mallctl("arenas.create", &a, &n, NULL, 0);
    return a;
}
static int act_on(const char *fmt, unsigned a) {
    char name[64];
    sprintf(name, fmt, a);
    return mallctl(name, NULL, NULL, NULL, 0);
}

CASE(purge_far) {
    say("%d", act_on("arena.%u.purge", 5000));
    say(" %d", act_on("arena.%u.decay", 5000));
    say(" %d", act_on("arena.%u.purge", 4096));
}

CASE(destroy_twice) {
    unsigned a = new_arena();
    say("%d", act_on("arena.%u.destroy", a));
    say(" %d", act_on("arena.%u.destroy", a));
}

CASE(destroy_0) { say("%d", act_on("arena.%u.destroy", 0)); }

CASE(destroy_far) { say("%d", act_on("arena.%u.destroy", 900)); }

CASE(reset_0) {
    say("%d", act_on("arena.%u.reset", 0));
    say(" %d", act_on("arena.%u.reset", 777));
}

CASE(reset_used) {
    unsigned a = new_arena();
    void *p = mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE);
    say("%d", p != NULL);
    say(" %d", act_on("arena.%u.reset", a));
    p = mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE);
    say(" %d", p != NULL);
}

CASE(destroy_used) {
    unsigned a = new_arena();
    void *p = mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE);
    say("%d", p != NULL);
    say(" %d", act_on("arena.%u.destroy", a));
}

CASE(arena_reuse) {
    unsigned a = new_arena();
    act_on("arena.%u.destroy", a);
    say("%d", new_arena() == a);
}

CASE(mallocx_0) {
    void *p = mallocx(0, 0);
    say("%d", p != NULL);
}

CASE(mallocx_huge) {
    errno = 0;
    void *p = mallocx(SIZE_MAX, 0);
    say("%d", p != NULL);
    say(" %d", errno);
    p = mallocx(PTRDIFF_MAX, 0);
    say(" %d", p != NULL);
}

CASE(mallocx_align63) {
    void *p = mallocx(100, 63);
    say("%d", p != NULL);
}

CASE(mallocx_align40) {
    void *p = mallocx(100, 40);
    say("%d", p != NULL);
}

CASE(mallocx_align30) {
    void *p = mallocx(100, 30);
    say("%d", p != NULL);
    say(" %d", ((uintptr_t)p & ((1u << 30) - 1)) == 0);
}

CASE(mallocx_arena_far) {
    void *p = mallocx(100, MALLOCX_ARENA(3000));
    say("%d", p != NULL);
}

CASE(mallocx_arena_max) {
    void *p = mallocx(100, MALLOCX_ARENA(4094));
    say("%d", p != NULL);
}

CASE(mallocx_arena_gone) {
    unsigned a = new_arena();
    act_on("arena.%u.destroy", a);
    void *p = mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE);
    say("%d", p != NULL);
}

CASE(mallocx_zero) {
    char *p = mallocx(100000, MALLOCX_ZERO | 12);
    int ok = 1;
    for (int i = 0; i < 100000; i++) {
        ok &= p[i] == 0;
    }
    say("%d", ok);
    say(" %d", ((uintptr_t)p & 4095) == 0);
}

CASE(nallocx_0) {
    say("%d", nallocx(0, 0) != 0);
    say(" %d", nallocx(SIZE_MAX, 0) == 0);
    say(" %d", nallocx(100, 63) == 0);
}

CASE(rallocx_null) {
    void *p = rallocx(NULL, 10, 0);
    say("%d", p != NULL);
}

CASE(rallocx_0) {
    void *p = rallocx(malloc(10), 0, 0);
    say("%d", p != NULL);
}

CASE(rallocx_huge) {
    void *q = malloc(10);
    void *p = rallocx(q, SIZE_MAX, 0);
    say("%d", p != NULL);
    free(q);
}

CASE(rallocx_align) {
    void *q = malloc(10);
    void *p = rallocx(q, 20, 63);
    say("%d", p != NULL);
}

CASE(xallocx_0) {
    void *q = malloc(100);
    size_t n = xallocx(q, 0, 0, 0);
    say("%d", n >= 100);
}

CASE(xallocx_over) {
    void *q = malloc(100);
    size_t n = xallocx(q, 100, SIZE_MAX, 0);
    say("%d", n >= 100);
}

CASE(xallocx_huge) {
    void *q = malloc(100);
    size_t n = xallocx(q, SIZE_MAX, 0, 0);
    say("%d", n >= 100 && n < 4096);
}

CASE(sallocx_null) { say("%zu", sallocx(NULL, 0)); }

CASE(dallocx_null) {
    dallocx(NULL, 0);
    say("ok");
}

CASE(sdallocx_null) {
    sdallocx(NULL, 10, 0);
    say("ok");
}

CASE(sdallocx_wrong) {
    void *p = malloc(100);
    sdallocx(p, 1000, 0);
    say("ok");
}

CASE(sdallocx_wrong0) {
    void *p = malloc(100);
    sdallocx(p, 0, 0);
    say("ok");
}

CASE(sdallocx_align) {
    void *p = mallocx(100, 12);
    sdallocx(p, 100, 12);
    say("ok");
}

CASE(dallocx_tc) {
    void *p = malloc(100);
    dallocx(p, MALLOCX_TCACHE(-1));
    say("ok");
}

CASE(dallocx_tc_far) {
    void *p = malloc(100);
    dallocx(p, MALLOCX_TCACHE(3000));
    say("ok");
}

CASE(mallocx_tc_far) {
    void *p = mallocx(100, MALLOCX_TCACHE(3000));
    say("%d", p != NULL);
}

CASE(mallocx_tc_gone) {
    unsigned t;
    size_t n = sizeof t;
    mallctl("tcache.create", &t, &n, NULL, 0);
    mallctl("tcache.destroy", NULL, NULL, &t, sizeof t);
    void *p = mallocx(100, MALLOCX_TCACHE(t));
    say("%d", p != NULL);
}

CASE(malloc_usable_null) { say("%zu", malloc_usable_size(NULL)); }

CASE(memalign_0) {
    void *p;
    say("%d", posix_memalign(&p, 0, 10));
    say(" %d", posix_memalign(&p, 3, 10));
    say(" %d", posix_memalign(&p, 4, 10));
    errno = 0;
    p = aligned_alloc(3, 10);
    say(" %d", p != NULL);
    say(" %d", errno);
    p = aligned_alloc(0, 10);
    say(" %d", p != NULL);
}

CASE(memalign_odd) {
    errno = 0;
    void *p = memalign(3, 10);
    say("%d", p != NULL);
    p = memalign(0, 10);
    say(" %d", p != NULL);
    p = memalign(SIZE_MAX / 2 + 1, 10);
    say(" %d", p != NULL);
}

CASE(double_free) {
    void *volatile p = malloc(100);
    free(p);
    free(p);
    say("ok");
}
