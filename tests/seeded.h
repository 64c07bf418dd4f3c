/* SPDX-License-Identifier: MIT */
/*
 * Random numbers of programs whose allocations a command is to explain, and how they mark their
 * call sites. Used by tests/advice and tests/causes. One thread.
 */
#ifndef PS_TESTS_SEEDED_H
#define PS_TESTS_SEEDED_H

#include <stdint.h>
#include <stdlib.h>

#define SITE __attribute__((noinline)) static

static uint64_t random_state = 1;

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

/* The first argument of a program is the seed; returns the second, a factor. Both may lack. */
static inline unsigned seed_and_factor(int argc, char **argv) {
    random_state = 0x9e3779b97f4a7c15u ^ (argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    return argc > 2 ? (unsigned)atoi(argv[2]) : 1;
}

#endif
