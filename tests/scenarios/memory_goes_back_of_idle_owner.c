// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * A thread fills 256 MiB of small and medium blocks and then only blocks; main frees them all. The
 * memory is released although its owner never calls the allocator again.
 */
#include "goes_back.h"

#include <pthread.h>

#define BLOCKS 1000000

static void **blocks;
static pthread_barrier_t filled;
static pthread_barrier_t measured;

static size_t size_of(unsigned i) { return i % 1000 == 0 ? 40000 : 64 + i % 5 * 64; }

static void *fill_and_wait(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, size_of(i));
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&measured);
    return NULL;
}

int main(void) {
    pthread_t thread;
    blocks = goes_back_table(BLOCKS);
    CLAIM(pthread_barrier_init(&filled, NULL, 2) == 0);
    CLAIM(pthread_barrier_init(&measured, NULL, 2) == 0);
    CLAIM(pthread_create(&thread, NULL, fill_and_wait, NULL) == 0);
    pthread_barrier_wait(&filled);
    CLAIM(claim_rss_bytes() > (size_t)160 << 20);
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    goes_back_be_lightly_active();
    size_t after_activity = goes_back_heap_rss(BLOCKS);
    malloc_trim(0);
    size_t after_trim = goes_back_heap_rss(BLOCKS);
    pthread_barrier_wait(&measured);
    CLAIM(pthread_join(thread, NULL) == 0);
    dprintf(2, "resident: %zu MiB after light activity, %zu MiB after malloc_trim\n",
            after_activity >> 20, after_trim >> 20);
    CLAIM(after_activity < GOES_BACK_RSS_LIMIT);
    CLAIM(after_trim < GOES_BACK_RSS_LIMIT);
    return 0;
}
