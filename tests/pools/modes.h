/* SPDX-License-Identifier: MIT */
/*
 * What a test can say under PS_DEBUG: tests/pools/test_pools_memcheck.py runs all programs in each
 * mode. Included by pool tests in C and C++.
 */
#ifndef PS_TESTS_POOLS_MODES_H
#define PS_TESTS_POOLS_MODES_H

#include <stdlib.h>
#include <string.h>

__attribute__((unused)) static int is_malloc_mode(void) {
    const char *value = getenv("PS_DEBUG");
    return value != NULL && strstr(value, "malloc") != NULL;
}

/* First in a test whose claim is about chunks: lengths, places, what a source is asked, what
 * refuses. With PS_DEBUG=malloc blocks are malloc's, and there is nothing to claim. */
#define NEEDS_CHUNKS()                                                                             \
    do {                                                                                           \
        if (is_malloc_mode()) {                                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
