/* SPDX-License-Identifier: MIT */
/*
 * Memory that goes back while no thread makes a call: threads rise to a peak in blocks of all
 * sizes, free everything, and block. The measuring thread calls nothing that allocates.
 */
#ifndef PS_TESTS_SILENCE_H
#define PS_TESTS_SILENCE_H

#include "claim.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#define SILENCE_BLOCKS 3000
#define SILENCE_PEAK_BYTES ((size_t)20 << 20) /* of each thread, at least */
#define SILENCE_LEFT_BYTES ((size_t)8 << 20)

__attribute__((unused)) static size_t silence_size(unsigned i) {
    return i % 100 == 0 ? 150000 : (size_t)(i * 2654435761u >> 17) % 20000 + 1;
}

/* blocks: SILENCE_BLOCKS. */
__attribute__((unused)) static void silence_rise(void **blocks) {
    for (unsigned i = 0; i < SILENCE_BLOCKS; i++) {
        size_t size = silence_size(i);
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
}

__attribute__((unused)) static void silence_fall(void **blocks) {
    for (unsigned i = 0; i < SILENCE_BLOCKS; i++) {
        free(blocks[i]);
    }
}

/* Polls until the process is down to so much; a process that is not ends by its time-out. */
__attribute__((unused)) static void silence_await(size_t bytes) {
    const struct timespec pause = {0, 5000000};
    while (claim_rss_bytes() > bytes) {
        nanosleep(&pause, NULL);
    }
}

#endif
