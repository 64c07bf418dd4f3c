// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * A program copies the first bytes of blocks that it has freed into live ones, and frees those: a
 * fault, but no double free. Nothing is accused, and no block is granted twice. With blocks of the
 * thread itself, of a thread that runs, and of one that has ended; of all small sizes.
 */
#include "claim.h"

#include <pthread.h>
#include <stdint.h>

#define BLOCKS 60
#define PAIRS 5 /* of each size and way */

static const size_t sizes[] = {16, 48, 256, 1024, 1500, 4000, 8000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static unsigned char *blocks[BLOCKS];
static size_t size;
static pthread_barrier_t step;

static void allocate(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        claim_fill(blocks[i], size, (unsigned)i);
    }
}

/* Not in order: no free streak. */
static void copy_and_free(void) {
    for (int i = 0; i < PAIRS; i++) {
        unsigned char *freed = blocks[i * 7];
        unsigned char *live = blocks[i * 7 + 3];
        free(freed);
        volatile unsigned char *from = claim_hide(freed);
        for (size_t j = 0; j < sizeof(uintptr_t); j++) {
            live[j] = from[j];
        }
        free(claim_hide(live));
        blocks[i * 7] = blocks[i * 7 + 3] = NULL;
    }
}

/* All granted blocks are disjoint from the live ones. */
static void check_and_free(void) {
    unsigned char *more[2 * BLOCKS];
    for (int i = 0; i < 2 * BLOCKS; i++) {
        more[i] = malloc(size);
        CLAIM(more[i] != NULL);
        for (int j = 0; j < i; j++) {
            CLAIM(more[i] != more[j]);
        }
        memset(more[i], 0xA5, size);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CLAIM(blocks[i] == NULL || claim_is_filled(blocks[i], size, (unsigned)i));
        free(blocks[i]);
    }
    for (int i = 0; i < 2 * BLOCKS; i++) {
        free(more[i]);
    }
}

static void *allocate_and_end(void *unused) {
    allocate();
    return unused;
}

static void *allocate_and_wait(void *unused) {
    allocate();
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    return unused;
}

int main(void) {
    CLAIM(pthread_barrier_init(&step, NULL, 2) == 0);
    for (size_t i = 0; i < SIZES; i++) {
        pthread_t thread;
        size = sizes[i];
        allocate();
        copy_and_free();
        check_and_free();
        CLAIM(pthread_create(&thread, NULL, allocate_and_end, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
        copy_and_free();
        check_and_free();
        CLAIM(pthread_create(&thread, NULL, allocate_and_wait, NULL) == 0);
        pthread_barrier_wait(&step);
        copy_and_free();
        check_and_free();
        pthread_barrier_wait(&step);
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
