/* SPDX-License-Identifier: MIT */
/*
 * What the programs of this folder share. Each has one call site whose blocks have a pattern, or
 * none; line 1 of its file names the pool that fits, or "none", for test_advise.py. The first
 * argument seeds sizes and order, the second multiplies the work.
 */
#ifndef TESTS_ADVICE_ADVICE_H
#define TESTS_ADVICE_ADVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline)) static

static uint64_t random_state = 1;
static unsigned scale = 1;

/* xorshift64* */
static inline uint64_t random_number(void) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1du;
}

static inline size_t random_between(size_t low, size_t high) {
    return low + random_number() % (high - low + 1);
}

static inline void seed_from(int argc, char **argv) {
    random_state = 0x9e3779b97f4a7c15u ^ (argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    scale = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
}

/* Part of the block is in use. */
static inline void *filled(void *block, size_t bytes) {
    if (block == NULL) {
        abort();
    }
    return memset(block, 0x5a, bytes < 64 ? bytes : 64);
}

#endif
