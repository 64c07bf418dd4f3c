// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Threads free all that they had and are joined, and main makes no further call: no background
 * thread is left that would release the memory after the delay, so the last join does.
 */
#include "silence.h"

#define THREADS 4

static void *blocks[THREADS][SILENCE_BLOCKS];

static void *rise(void *own_blocks) {
    silence_rise(own_blocks);
    return NULL;
}

static void *fall(void *own_blocks) {
    silence_fall(own_blocks);
    return NULL;
}

static void run(void *(*routine)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, routine, blocks[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void) {
    size_t before = claim_rss_bytes();
    run(rise);
    CLAIM(claim_rss_bytes() > THREADS * SILENCE_PEAK_BYTES);
    const struct timespec pause = {1,
                                   100000000}; /* the last release is longer ago than the delay */
    nanosleep(&pause, NULL);
    run(fall);
    silence_await(before + 2 * SILENCE_LEFT_BYTES);
    return 0;
}
