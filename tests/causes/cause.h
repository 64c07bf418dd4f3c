/* SPDX-License-Identifier: MIT */
/*
 * What the programs of this folder share: each has one cause for which its memory stays, which
 * line 1 of its file names for test_explain.py. The first argument seeds sizes and order, the
 * second multiplies all pauses: on a loaded machine a reader gets its turn only then.
 */
#ifndef TESTS_CAUSES_CAUSE_H
#define TESTS_CAUSES_CAUSE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SITE __attribute__((noinline)) static
#define MIB ((size_t)1 << 20)

static uint64_t random_state = 1;
static unsigned pace = 1;

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
    pace = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
}

/* A step of a program that has something to wait for between its steps. */
static inline void pause_ms(unsigned ms) {
    ms *= pace;
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* All of a block is in use. */
static inline void *filled(void *block, size_t bytes) {
    if (block == NULL) {
        abort();
    }
    return memset(block, 0x5a, bytes);
}

/* Short-lived blocks of many sizes. */
SITE void answer_request(void) {
    void *blocks[64];
    for (size_t i = 0; i < 64; i++) {
        size_t bytes = random_between(16, 6000);
        blocks[i] = filled(malloc(bytes), bytes);
    }
    for (size_t i = 0; i < 64; i++) {
        free(blocks[i]);
    }
}

/* Some time of ordinary work. */
static inline void work_on(unsigned steps) {
    for (unsigned i = 0; i < steps; i++) {
        answer_request();
        pause_ms(10);
    }
}

#endif
