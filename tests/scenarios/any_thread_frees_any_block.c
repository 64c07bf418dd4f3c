// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Four threads allocate into a shared table in turns and free or reallocate what another thread
 * put there, over all size regimes; afterwards everything is freed by main.
 */
#include "claim.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLOTS 2048
#define STEPS 200000

struct block {
    size_t size;
    unsigned seed;
    unsigned char bytes[];
};

static _Atomic(struct block *) table[SLOTS];

static void check(const struct block *block) {
    size_t length = block->size < 300 ? block->size : 300;
    CLAIM(claim_is_filled(block->bytes, length, block->seed));
    CLAIM(claim_pattern(block->size - 1, block->seed) == block->bytes[block->size - 1]);
}

static void fill(struct block *block, size_t size, unsigned seed) {
    block->size = size;
    block->seed = seed;
    claim_fill(block->bytes, size < 300 ? size : 300, seed);
    block->bytes[size - 1] = claim_pattern(size - 1, seed);
}

static size_t random_size(unsigned random) {
    unsigned kind = random % 1000;
    if (kind == 0) {
        return 400000 + random % 5000000;
    }
    return kind < 30 ? 2000 + random % 100000 : 1 + random % 700;
}

static void *exchange(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument * 7919u + 1;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        size_t size = random_size(random >> 8);
        struct block *fresh = malloc(sizeof *fresh + size);
        CLAIM(fresh != NULL);
        fill(fresh, size, random);
        struct block *old = atomic_exchange(&table[(random >> 16) % SLOTS], fresh);
        if (old == NULL) {
            continue;
        }
        check(old);
        if (step % 16 == 0) {
            old = realloc(old, sizeof *old + 2 * old->size);
            CLAIM(old != NULL);
            check(old);
        }
        free(old);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) {
        CLAIM(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    for (int i = 0; i < SLOTS; i++) {
        struct block *block = atomic_load(&table[i]);
        if (block != NULL) {
            check(block);
            free(block);
        }
    }
    return 0;
}
