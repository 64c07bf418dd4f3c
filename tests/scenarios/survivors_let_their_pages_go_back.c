// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * Four threads have a peak, free all but one random block in fifty, and end. No span drains; the
 * pages between the survivors go back all the same, and the survivors are intact, also when the
 * memory is used again.
 */
#include "claim.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS 4
#define BLOCKS 150000
#define KEPT_ONE_OF 50
#define WAIT_MS 10000

static unsigned char *blocks[THREADS][BLOCKS];

static size_t size_of(size_t i) { return 16 << i % 6; } /* to 512 bytes */

static unsigned char mark_of(size_t i) { return (unsigned char)(i * 31 + 1); }

static void fill(unsigned char **mine) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (mine[i] == NULL) {
            mine[i] = malloc(size_of(i));
            CLAIM(mine[i] != NULL);
            memset(mine[i], mark_of(i), size_of(i));
        }
    }
}

static void end(unsigned char **mine, size_t i) {
    for (size_t at = 0; at < size_of(i); at++) {
        CLAIM(mine[i][at] == mark_of(i));
    }
    free(mine[i]);
    mine[i] = NULL;
}

static void *rise_and_leave_few(void *argument) {
    unsigned char **mine = argument;
    unsigned state = 1 + (unsigned)((uintptr_t)mine >> 4);
    fill(mine);
    for (size_t i = 0; i < BLOCKS; i++) {
        state = state * 1103515245u + 12345u;
        if ((state >> 16) % KEPT_ONE_OF != 0) {
            end(mine, i);
        }
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, rise_and_leave_few, blocks[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
}

/* Polls until less than half of the peak is resident. */
static void wait_for_half(size_t peak) {
    for (int waited = 0; claim_rss_bytes() > peak / 2 && waited < WAIT_MS; waited += 50) {
        usleep(50000);
    }
    CLAIM(claim_rss_bytes() <= peak / 2);
}

int main(void) {
    run_threads();
    size_t peak = THREADS * (size_t)BLOCKS / 6 * (1024 - 16);
    wait_for_half(peak);
    run_threads(); /* in the gaps between the survivors */
    wait_for_half(peak);
    for (size_t i = 0; i < THREADS * (size_t)BLOCKS; i++) {
        if (blocks[i / BLOCKS][i % BLOCKS] != NULL) {
            end(blocks[i / BLOCKS], i % BLOCKS);
        }
    }
    return 0;
}
