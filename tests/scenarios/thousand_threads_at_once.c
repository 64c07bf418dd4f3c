// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * A thousand threads have 144 KiB in 40 blocks each at the same time, then free those of a
 * neighbour, then end: all blocks intact, less than 400 MiB resident for 141 MiB of payload (no
 * sparse use of huge pages), and afterwards a trim brings the memory back.
 */
#include "claim.h"

#include <malloc.h>
#include <pthread.h>

#define THREADS 1000
#define STACK_BYTES ((size_t)128 << 10) /* the least on 64-bit ARM */
#define BLOCKS 40

static unsigned char *blocks[THREADS][BLOCKS];
static pthread_barrier_t all_hold;
static pthread_barrier_t measured;

static size_t size_of(unsigned i) { return (size_t)16 + (size_t)i * i * 7; }

static void *hold(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[self][i] = malloc(size_of(i));
        CLAIM(blocks[self][i] != NULL);
        memset(blocks[self][i], (int)(self % 251), size_of(i));
    }
    pthread_barrier_wait(&all_hold);
    pthread_barrier_wait(&measured);
    unsigned other = (self + 1) % THREADS;
    for (unsigned i = 0; i < BLOCKS; i++) {
        CLAIM(blocks[other][i][0] == other % 251);
        CLAIM(blocks[other][i][size_of(i) - 1] == other % 251);
        free(blocks[other][i]);
    }
    return NULL;
}

int main(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    size_t before = claim_rss_bytes();
    CLAIM(pthread_barrier_init(&all_hold, NULL, THREADS + 1) == 0);
    CLAIM(pthread_barrier_init(&measured, NULL, THREADS + 1) == 0);
    CLAIM(pthread_attr_init(&attributes) == 0);
    CLAIM(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        int result = pthread_create(&threads[i], &attributes, hold, (void *)i);
        if (result == EAGAIN) {
            claim_skip("this machine does not allow a thousand threads");
        }
        CLAIM(result == 0);
    }
    pthread_barrier_wait(&all_hold);
    size_t peak = claim_rss_bytes();
    pthread_barrier_wait(&measured);
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    malloc_trim(0);
    dprintf(2, "resident with all blocks: %zu MiB\n", peak >> 20);
    CLAIM(peak < before + ((size_t)400 << 20));
    CLAIM(claim_rss_bytes() < before + ((size_t)96 << 20));
    return 0;
}
