/* SPDX-License-Identifier: MIT */
/*
 * Heaps as objects, and poolshim_set, with wrong arguments.
 */
#include "wrong.h"

#include <poolshim/heap.h>
#include <poolshim/poolshim.h>

static poolshim_heap *made(void) { return poolshim_heap_create(NULL); }
/* The result of a call, a pointer as "block", and errno. */
#define SAY(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        intptr_t result_ = (intptr_t)(call);                                                       \
        bool is_pointer_ = result_ > 1 || result_ < -1;                                            \
        say(is_pointer_ ? "block " : "%d/%s ", (int)result_, strerrorname_np(errno));              \
    } while (0)

CASE(create) {
    struct poolshim_heap_options o = {.bytes = 0};
    SAY(poolshim_heap_create(&o));
    o.bytes = 7;
    SAY(poolshim_heap_create(&o));
    o.bytes = 8;
    SAY(poolshim_heap_create(&o));
    o.bytes = SIZE_MAX;
    SAY(poolshim_heap_create(&o));
    o = (struct poolshim_heap_options){.bytes = sizeof o, .limit_bytes = 4095};
    SAY(poolshim_heap_create(&o));
    o.limit_bytes = 4096;
    poolshim_heap *h = poolshim_heap_create(&o);
    SAY(poolshim_heap_alloc(h, 5000));
    SAY(poolshim_heap_alloc(h, 4000));
}
CASE(name) {
    char n[100];
    memset(n, 'x', 99);
    n[99] = 0;
    struct poolshim_heap_options o = {.bytes = sizeof o, .name = n};
    poolshim_heap *h = poolshim_heap_create(&o);
    struct poolshim_heap_stats s;
    SAY(poolshim_heap_stats_read(h, &s, sizeof s));
    say("%zu", strlen(s.name));
}
CASE(null) {
    SAY(poolshim_heap_alloc(NULL, 5));
    SAY(poolshim_heap_zalloc(NULL, 5));
    SAY(poolshim_heap_alloc_aligned(NULL, 5, 16));
    SAY(poolshim_heap_realloc(NULL, NULL, 5));
    SAY(poolshim_heap_destroy(NULL));
    SAY(poolshim_heap_delete(NULL));
    SAY(poolshim_heap_of(NULL));
    struct poolshim_heap_stats s;
    SAY(poolshim_heap_stats_read(NULL, &s, sizeof s));
}
CASE(forged) {
    for (uint64_t v = 1; v != 0; v <<= 1) {
        poolshim_heap *h = (poolshim_heap *)(uintptr_t)v;
        if (poolshim_heap_alloc(h, 5) || poolshim_heap_destroy(h) == 0) {
            say("bad %llx ", (unsigned long long)v);
        }
        h = (poolshim_heap *)(uintptr_t)~v;
        if (poolshim_heap_alloc(h, 5) || poolshim_heap_destroy(h) == 0) {
            say("bad %llx ", (unsigned long long)~v);
        }
    }
    say("ok");
}
CASE(after) {
    poolshim_heap *h = made();
    void *p = poolshim_heap_alloc(h, 10);
    SAY(poolshim_heap_destroy(h));
    SAY(poolshim_heap_destroy(h));
    SAY(poolshim_heap_alloc(h, 5));
    SAY(poolshim_heap_realloc(h, NULL, 5));
    SAY(poolshim_heap_of(p));
}
CASE(after_delete) {
    poolshim_heap *h = made();
    void *p = poolshim_heap_alloc(h, 10);
    SAY(poolshim_heap_delete(h));
    SAY(poolshim_heap_delete(h));
    SAY(poolshim_heap_alloc(h, 5));
    SAY(poolshim_heap_of(p));
    SAY(realloc(p, 100000)); /* the heap allocates nothing any more */
    free(p);
}
CASE(realloc_gone) {
    poolshim_heap *h = made();
    void *p = malloc(10);
    poolshim_heap_destroy(h);
    SAY(poolshim_heap_realloc(h, p, 20));
    free(p);
}
CASE(align) {
    poolshim_heap *h = made();
    SAY(poolshim_heap_alloc_aligned(h, 5, 0));
    SAY(poolshim_heap_alloc_aligned(h, 5, 3));
    SAY(poolshim_heap_alloc_aligned(h, 5, (size_t)1 << 63));
    SAY(poolshim_heap_alloc_aligned(h, SIZE_MAX, 16));
}
CASE(huge) {
    poolshim_heap *h = made();
    SAY(poolshim_heap_alloc(h, SIZE_MAX));
    SAY(poolshim_heap_alloc(h, PTRDIFF_MAX));
    SAY(poolshim_heap_zalloc(h, SIZE_MAX - 100));
    SAY(poolshim_heap_realloc(h, poolshim_heap_alloc(h, 9), SIZE_MAX));
    SAY(poolshim_heap_alloc(h, 0));
    SAY(poolshim_heap_realloc(h, NULL, 0));
}
CASE(stats) {
    poolshim_heap *h = made();
    struct poolshim_heap_stats s;
    SAY(poolshim_heap_stats_read(h, NULL, sizeof s));
    SAY(poolshim_heap_stats_read(h, &s, 0));
    SAY(poolshim_heap_stats_read(h, &s, 7));
    SAY(poolshim_heap_stats_read(h, &s, 8));
    char big[1000];
    memset(big, 1, 1000);
    SAY(poolshim_heap_stats_read(h, (void *)big, 1000));
    say("%d", big[999]);
}
CASE(of) {
    int x = 0;
    SAY(poolshim_heap_of(&x));
    SAY(poolshim_heap_of((void *)1));
    SAY(poolshim_heap_of((void *)-1));
    SAY(poolshim_heap_of(malloc(10)));
    poolshim_heap *h = made();
    char *p = poolshim_heap_alloc(h, 100);
    SAY(poolshim_heap_of(p) == h);
}
CASE(realloc_foreign) {
    poolshim_heap *h = made();
    int x = 0;
    SAY(poolshim_heap_realloc(h, &x, 100));
}
CASE(set) {
    SAY(poolshim_set(NULL, "1"));
    SAY(poolshim_set("LIMIT", NULL));
    SAY(poolshim_set("", ""));
    SAY(poolshim_set("THREAD_BYTES", "2"));
    SAY(poolshim_set("THREAD_BYTES", "1"));
    SAY(poolshim_set("thread-bytes", "off"));
    SAY(poolshim_set("TOKEN_MAX", "5"));
    SAY(poolshim_set("POOLSHIM_", "5"));
}
CASE(many) {
    size_t n = 0;
    while (made() != NULL && n < 100000) {
        n++;
    }
    SAY(made());
    say("%zu", n);
}
