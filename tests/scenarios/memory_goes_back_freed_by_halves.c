// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * The thread that allocated frees every other block, another one the rest: neither frees all of a
 * slab, and the memory is released all the same.
 */
#include "goes_back.h"

#include <pthread.h>

#define BLOCKS 250000
#define BLOCK_BYTES 1024

static void **blocks;

static void free_from(size_t first) {
    for (size_t i = first; i < BLOCKS; i += 2) {
        free(blocks[i]);
    }
}

static void *free_odd(void *unused) {
    free_from(1);
    return unused;
}

int main(void) {
    blocks = goes_back_table(BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    free_from(0);
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, free_odd, NULL) == 0);
    CLAIM(pthread_join(thread, NULL) == 0);
    goes_back_be_lightly_active();
    size_t after_activity = goes_back_heap_rss(BLOCKS);
    dprintf(2, "resident: %zu MiB after light activity\n", after_activity >> 20);
    CLAIM(after_activity < GOES_BACK_RSS_LIMIT);
    return 0;
}
