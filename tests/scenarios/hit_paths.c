// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Calls of the fast paths alone: no refill, no event, no other thread.
 * tests/repo/test_hit_paths.py counts their instructions: hit_paths <case> <calls>. Without
 * arguments all cases run once.
 */
#include "claim.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 900 /* of 64 bytes: less than a slab has */
#define CALLS_MAX 200

static void *blocks[BLOCKS];

static void fill(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(64);
        CLAIM(blocks[i] != NULL);
    }
}

/* No two neighbours one after the other: 241 and 900 have no common divisor. */
static void scatter(void) {
    static void *ordered[BLOCKS];
    memcpy(ordered, blocks, sizeof ordered);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = ordered[i * 241 % BLOCKS];
    }
}

static void allocate(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        blocks[i] = malloc(64);
    }
}

static void free_from(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        free(blocks[i]);
    }
}

/* Fresh blocks from one window. */
static void malloc_virgin(unsigned calls) { allocate(0, 300 + calls); }

/* Blocks that were freed before, in no order. */
static void malloc_freed(unsigned calls) {
    fill();
    scatter();
    free_from(0, BLOCKS);
    allocate(0, 300 + calls);
}

static void free_scattered(unsigned calls) {
    fill();
    scatter();
    free_from(0, 500 + calls);
}

/* In sequence, so that a free streak takes them. */
static void free_in_order(unsigned calls) {
    fill();
    free_from(0, 400 + calls);
}

static void free_null(unsigned calls) {
    free(malloc(64));
    for (unsigned i = 0; i < calls; i++) {
        free(NULL);
    }
}

static void make_pairs(unsigned calls, size_t bytes) {
    for (unsigned i = 0; i < 5000 + calls; i++) {
        free(malloc(bytes));
    }
}

static void pair_64(unsigned calls) { make_pairs(calls, 64); }

/* Above the direct table: the slow side of malloc, with a free block in its list. */
static void pair_2000(unsigned calls) { make_pairs(calls, 2000); }

/* Pairs of a class with ten blocks in a slab. */
static void pair_6000(unsigned calls) { make_pairs(calls, 6000); }

/* Blocks that the thread caches. Every 32nd pair reads the clock: fewer are counted. */
static void medium_pairs(unsigned calls, size_t bytes) {
    for (unsigned i = 0; i < calls; i++) {
        free(malloc(bytes));
    }
}

static void pair_10k(unsigned calls) { medium_pairs(calls, 10000); }
static void pair_100k(unsigned calls) { medium_pairs(calls, 100000); }

static const struct hit_case {
    const char *name;
    void (*run)(unsigned calls);
} cases[] = {
    {"malloc_virgin", malloc_virgin},
    {"malloc_freed", malloc_freed},
    {"free_scattered", free_scattered},
    {"free_in_order", free_in_order},
    {"free_null", free_null},
    {"pair_64", pair_64},
    {"pair_2000", pair_2000},
    {"pair_6000", pair_6000},
    {"pair_10k", pair_10k},
    {"pair_100k", pair_100k},
};

int main(int count, char **arguments) {
    const char *name = count == 3 ? arguments[1] : NULL;
    unsigned calls = count == 3 ? (unsigned)strtoul(arguments[2], NULL, 10) : CALLS_MAX;
    CLAIM(calls <= CALLS_MAX);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (name == NULL || strcmp(name, cases[i].name) == 0) {
            cases[i].run(calls);
        }
    }
    return 0;
}
