// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Another thread frees all but the last blocks of every slab; the thread that allocated frees those
 * much later, when the purge delay is over.
 */
#include "claim.h"

#include <pthread.h>
#include <unistd.h>

#define SPANS 64
#define SPARE 64

static size_t block_bytes;
static size_t per_span;
static void **blocks;

static void *free_all_but_last(void *unused) {
    for (size_t i = 0; i < SPANS * per_span; i++) {
        if (i % per_span != per_span - 1) {
            free(blocks[i]);
        }
    }
    return unused;
}

static void check(size_t size, size_t count) {
    block_bytes = size;
    per_span = count;
    size_t total = SPANS * per_span + SPARE;
    blocks = malloc(total * sizeof *blocks);
    CLAIM(blocks != NULL);
    for (size_t i = 0; i < total; i++) {
        blocks[i] = malloc(block_bytes);
        CLAIM(blocks[i] != NULL);
    }
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, free_all_but_last, NULL) == 0);
    CLAIM(pthread_join(thread, NULL) == 0);
    usleep(400000); /* longer than the time between two readings of the clock */
    for (size_t i = per_span - 1; i < SPANS * per_span; i += per_span) {
        free(blocks[i]);
    }
    for (size_t i = SPANS * per_span; i < total; i++) {
        free(blocks[i]);
    }
    free(blocks);
}

int main(void) {
    check(65536, 8);
    check(65536, 1);
    check(4096, 16);
    check(1024, 64);
    return 0;
}
