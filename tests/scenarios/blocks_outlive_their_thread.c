// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Blocks of a thread that ended are intact, can be measured, regrown and freed: by main while no
 * other thread runs, and by many threads at once.
 */
#include "claim.h"

#include <malloc.h>
#include <pthread.h>

#define BLOCKS 5000
#define FREERS 4

static unsigned char *blocks[BLOCKS];

static size_t size_of(unsigned i) { return i % 100 == 99 ? 200000 : (size_t)(i * 13 % 2000) + 1; }

static void *make_all(void *seed) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CLAIM(blocks[i] != NULL);
        claim_fill(blocks[i], size_of(i), i + (unsigned)(uintptr_t)seed);
    }
    return NULL;
}

static void *free_share(void *argument) {
    for (unsigned i = (unsigned)(uintptr_t)argument; i < BLOCKS; i += FREERS) {
        free(blocks[i]);
    }
    return NULL;
}

int main(void) {
    for (uintptr_t round = 0; round < 30; round++) {
        pthread_t maker;
        CLAIM(pthread_create(&maker, NULL, make_all, (void *)round) == 0);
        CLAIM(pthread_join(maker, NULL) == 0);
        for (unsigned i = 0; i < BLOCKS; i++) {
            CLAIM(claim_is_filled(blocks[i], size_of(i), i + (unsigned)round));
            CLAIM(malloc_usable_size(blocks[i]) >= size_of(i));
            if (i % 5 == 0) {
                blocks[i] = realloc(blocks[i], size_of(i) * 2 + 10);
                CLAIM(claim_is_filled(blocks[i], size_of(i), i + (unsigned)round));
            }
        }
        if (round % 2 == 0) {
            for (unsigned i = 0; i < BLOCKS; i++) {
                free(blocks[BLOCKS - 1 - i]);
            }
            continue;
        }
        pthread_t freers[FREERS];
        for (uintptr_t i = 0; i < FREERS; i++) {
            CLAIM(pthread_create(&freers[i], NULL, free_share, (void *)i) == 0);
        }
        for (int i = 0; i < FREERS; i++) {
            CLAIM(pthread_join(freers[i], NULL) == 0);
        }
    }
    return 0;
}
