/* SPDX-License-Identifier: MIT */
/*
 * What the programs of this folder share. Each has one call site whose blocks have a pattern, or
 * none; line 1 of its file names the pool that fits, or "none", for test_advise.py. The first
 * argument seeds sizes and order, the second multiplies the work.
 */
#ifndef TESTS_ADVICE_ADVICE_H
#define TESTS_ADVICE_ADVICE_H

#include "tests/seeded.h"

#include <stdbool.h>
#include <string.h>

static unsigned scale = 1;

static inline void seed_from(int argc, char **argv) { scale = seed_and_factor(argc, argv); }

/* Part of the block is in use. */
static inline void *filled(void *block, size_t bytes) {
    if (block == NULL) {
        abort();
    }
    return memset(block, 0x5a, bytes < 64 ? bytes : 64);
}

#endif
