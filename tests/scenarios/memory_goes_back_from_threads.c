// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * Eight threads have 64 MiB each in mixed small blocks, free them and end, or free them and are
 * idle: main's light activity and malloc_trim bring the memory of both kinds back.
 */
#include "goes_back.h"

#include <pthread.h>

#define THREADS 8
#define BLOCKS 200000

static pthread_barrier_t all_freed;
static pthread_barrier_t measured;

static size_t size_of(unsigned i) { return 64 + i % 9 * 64; }

static void *rise_and_drop(void *stays) {
    void **blocks = goes_back_table(BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, size_of(i));
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    munmap(blocks, BLOCKS * sizeof *blocks);
    if (stays != NULL) {
        pthread_barrier_wait(&all_freed);
        pthread_barrier_wait(&measured);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    CLAIM(pthread_barrier_init(&all_freed, NULL, THREADS / 2 + 1) == 0);
    CLAIM(pthread_barrier_init(&measured, NULL, THREADS / 2 + 1) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        void *stays = i % 2 == 0 ? threads : NULL;
        CLAIM(pthread_create(&threads[i], NULL, rise_and_drop, stays) == 0);
    }
    for (int i = 1; i < THREADS; i += 2) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    pthread_barrier_wait(&all_freed);
    goes_back_be_lightly_active();
    size_t after_activity = claim_rss_bytes();
    malloc_trim(0);
    size_t after_trim = claim_rss_bytes();
    pthread_barrier_wait(&measured);
    for (int i = 0; i < THREADS; i += 2) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    dprintf(2, "resident: %zu MiB after light activity, %zu MiB after malloc_trim\n",
            after_activity >> 20, after_trim >> 20);
    CLAIM(after_activity < GOES_BACK_RSS_LIMIT);
    CLAIM(after_trim < GOES_BACK_RSS_LIMIT);
    return 0;
}
