/* SPDX-License-Identifier: MIT */
/*
 * What a test can say under PS_DEBUG: tests/pools/test_pools_memcheck.py runs all programs in each
 * mode. Included by pool tests in C and C++.
 */
#ifndef PS_TESTS_POOLS_MODES_H
#define PS_TESTS_POOLS_MODES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

__attribute__((unused)) static int is_malloc_mode(void) {
    const char *value = getenv("PS_DEBUG");
    return value != NULL && strstr(value, "malloc") != NULL;
}

/* Whether blocks of regions, stacks, FIFOs and rings have canaries: then they lie apart. Without
 * PS_DEBUG they do in checked builds and under memcheck. */
__attribute__((unused)) static int has_canaries(void) {
    const char *value = getenv("PS_DEBUG");
    const char *preloaded = getenv("LD_PRELOAD");
    return !is_malloc_mode() &&
           (PS_CHECKED || (value != NULL && strstr(value, "check") != NULL) ||
            (preloaded != NULL && strstr(preloaded, "vgpreload_memcheck") != NULL));
}

/* Bytes in front of a block and after it, where its size is a multiple of 16. */
__attribute__((unused)) static size_t canary_bytes(void) { return has_canaries() ? 64 : 0; }

/* First in a test whose claim is about chunks: lengths, places, what a source is asked, what
 * refuses. With PS_DEBUG=malloc blocks are malloc's, and there is nothing to claim. */
#define NEEDS_CHUNKS()                                                                             \
    do {                                                                                           \
        if (is_malloc_mode()) {                                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
