// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=100
/* SPDX-License-Identifier: MIT */
/*
 * Eight threads free all that they had and block, and main only looks: no thread makes a call, and
 * the memory goes back, with that in the threads' caches. Twice, since the background thread sleeps
 * in between.
 */
#include "silence.h"

#define THREADS 8

static void *blocks[THREADS][SILENCE_BLOCKS];
static pthread_barrier_t is_full;
static pthread_barrier_t is_free;
static pthread_barrier_t is_over;

static void *work(void *own_blocks) {
    for (int round = 0; round < 2; round++) {
        silence_rise(own_blocks);
        pthread_barrier_wait(&is_full);
        pthread_barrier_wait(&is_full);
        silence_fall(own_blocks);
        pthread_barrier_wait(&is_free);
        pthread_barrier_wait(&is_over);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&is_full, NULL, THREADS + 1);
    pthread_barrier_init(&is_free, NULL, THREADS + 1);
    pthread_barrier_init(&is_over, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, work, blocks[i]) == 0);
    }
    size_t before = claim_rss_bytes();
    for (int round = 0; round < 2; round++) {
        pthread_barrier_wait(&is_full);
        CLAIM(claim_rss_bytes() > THREADS * SILENCE_PEAK_BYTES);
        pthread_barrier_wait(&is_full);
        pthread_barrier_wait(&is_free);
        silence_await(before + SILENCE_LEFT_BYTES);
        pthread_barrier_wait(&is_over);
    }
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
