/* SPDX-License-Identifier: MIT */
/*
 * The source of the pool tests: malloc that counts, fills its blocks, and refuses when it is told
 * to. Included after unit.h or fresh.h. Any thread may use it; the test orders reads of its counts.
 *
 *   live_count == calls - refused calls - free_count
 */
#ifndef PS_TESTS_POOLS_COUNTING_SOURCE_H
#define PS_TESTS_POOLS_COUNTING_SOURCE_H

#include "pools/common/debug.h"

#include <errno.h>
#include <poolshim/source.h>
#include <stdlib.h>
#include <string.h>

#define COUNTING_BYTES_MAX ((size_t)1 << 30) /* ASan ends a program that asks it for more */
#define COUNTING_FILL_MAX ((size_t)1 << 20)  /* what a pool takes for zeroed, it takes at once */

struct counting_source {
    struct ps_source source;
    size_t calls_max; /* those beyond are refused */
    size_t calls;     /* refused ones too */
    size_t free_count;
    size_t live_count;
    size_t live_bytes;
    size_t longest_bytes;
};

static void *counting_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct counting_source *counting = (struct counting_source *)source;
    size_t calls = __atomic_fetch_add(&counting->calls, 1, __ATOMIC_RELAXED);
    void *chunk = NULL;
    if (calls >= counting->calls_max || bytes > COUNTING_BYTES_MAX ||
        posix_memalign(&chunk, align < 16 ? 16 : align, bytes) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    memset(chunk, 0xa5, bytes < COUNTING_FILL_MAX ? bytes : COUNTING_FILL_MAX);
    __atomic_fetch_add(&counting->live_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counting->live_bytes, bytes, __ATOMIC_RELAXED);
    size_t longest = __atomic_load_n(&counting->longest_bytes, __ATOMIC_RELAXED);
    while (longest < bytes &&
           !__atomic_compare_exchange_n(&counting->longest_bytes, &longest, bytes, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return chunk;
}

static void counting_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct counting_source *counting = (struct counting_source *)source;
    __atomic_fetch_add(&counting->free_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&counting->live_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&counting->live_bytes, bytes, __ATOMIC_RELAXED);
    free(chunk);
}

/* calls_max: SIZE_MAX to refuse none. */
__attribute__((unused)) static struct counting_source new_source(size_t calls_max) {
    return (struct counting_source){.source = {counting_alloc, counting_free},
                                    .calls_max = calls_max};
}

/* Whether chunks are of the usual lengths, with several blocks each: in malloc mode the source is
 * not asked for them, and in check mode blocks have more around them. */
__attribute__((unused)) static bool has_layout(void) {
    return !ps_debug_is_malloc() && !ps_debug_is_check();
}

/* An oom handler whose context is the source: asks it again the first time, and gives up the second
 * time. */
__attribute__((unused)) static int give_up_at_second(void *context, size_t bytes) {
    static int asked;
    struct counting_source *source = (struct counting_source *)context;
    CHECK_CMP(bytes, >, 0);
    if (++asked % 2 == 1) {
        return 1;
    }
    source->calls_max = SIZE_MAX; /* so that the next call works */
    return 0;
}

#endif
