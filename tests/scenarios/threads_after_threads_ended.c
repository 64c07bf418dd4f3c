// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Generations of threads: each frees all blocks of the one before it while making its own, in the
 * order made, in reverse, and scattered; whole slabs serve one generation after the other.
 */
#include "claim.h"

#include <pthread.h>

#define BLOCKS 20000
#define GENERATIONS 60

static uint64_t *blocks[BLOCKS];
static unsigned generation;

static unsigned order_of(unsigned i) {
    switch (generation % 3) {
    case 0:
        return i;
    case 1:
        return BLOCKS - 1 - i;
    default:
        return (unsigned)((uint64_t)i * 7919 % BLOCKS);
    }
}

static void *replace_all(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned slot = order_of(i);
        if (blocks[slot] != NULL) {
            CLAIM(blocks[slot][0] == ((uint64_t)(generation - 1) << 32 | slot));
            free(blocks[slot]);
        }
        blocks[slot] = malloc(24 + (slot % 7) * 16);
        CLAIM(blocks[slot] != NULL);
        blocks[slot][0] = (uint64_t)generation << 32 | slot;
    }
    return NULL;
}

int main(void) {
    size_t settled = 0;
    for (generation = 0; generation < GENERATIONS; generation++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, replace_all, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
        if (generation == 10) {
            settled = claim_rss_bytes();
        }
    }
    CLAIM(claim_rss_bytes() < settled + ((size_t)4 << 20));
    return 0;
}
