/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs of this folder. The memory of each is resident for one cause, which line 1
 * of its file names for test_explain.py. The first argument seeds sizes and order, the second
 * multiplies all pauses: on a loaded machine a reader gets its turn only then. Without one, slow
 * machines have pauses up to PACE_MAX times as long.
 */
#ifndef TESTS_CAUSES_CAUSE_H
#define TESTS_CAUSES_CAUSE_H

#include "tests/seeded.h"
#include "tests/slowness.h"

#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define PACE_MAX 8

static unsigned pace = 1;

static inline void seed_from(int argc, char **argv) {
    pace = seed_and_factor(argc, argv);
    if (argc <= 2) {
        unsigned slowness = slowness_factor();
        pace = slowness < PACE_MAX ? slowness : PACE_MAX;
    }
}

/* A pause of a program that blocks between its steps. */
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
