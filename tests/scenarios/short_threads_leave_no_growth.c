// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * 100,000 short threads, eight at a time, allocate, free some blocks, and leave others that
 * a later thread frees: the slabs of an ended thread serve all others, so the last 80,000 add no
 * memory.
 */
#include "claim.h"

#include <pthread.h>

#define BATCH 8
#define THREADS 100000
#define LEFT 24
#define AGE 16 /* batches a block outlives its thread */

static void *left_behind[AGE][BATCH][LEFT];

static size_t size_of(unsigned position) {
    static const size_t sizes[] = {8, 24, 64, 64, 200, 600, 1500, 5000};
    return sizes[position % 8];
}

struct job {
    void **old; /* blocks to free, from a thread that ended */
    void **place;
};

static void *live_shortly(void *argument) {
    struct job *job = argument;
    void *passing[LEFT];
    for (unsigned i = 0; i < LEFT; i++) {
        passing[i] = malloc(size_of(i + 3));
        CLAIM(passing[i] != NULL);
        *(char *)passing[i] = 1;
    }
    for (unsigned i = 0; i < LEFT; i++) {
        if (job->old[i] != NULL) {
            CLAIM(*(unsigned char *)job->old[i] == 0x77);
            free(job->old[i]);
        }
        unsigned char *kept = malloc(size_of(i));
        CLAIM(kept != NULL);
        *kept = 0x77;
        job->place[i] = kept;
        free(passing[i]);
    }
    return NULL;
}

/* Each thread frees what its predecessor of AGE batches ago left, and leaves its own instead. */
static void run_batch(unsigned batch) {
    static void *old[BATCH][LEFT];
    pthread_t threads[BATCH];
    struct job jobs[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        unsigned neighbour = (i + 1) % BATCH;
        memcpy(old[i], left_behind[batch % AGE][neighbour], sizeof old[i]);
    }
    for (unsigned i = 0; i < BATCH; i++) {
        jobs[i] = (struct job){old[i], left_behind[batch % AGE][i]};
        CLAIM(pthread_create(&threads[i], NULL, live_shortly, &jobs[i]) == 0);
    }
    for (unsigned i = 0; i < BATCH; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void) {
    unsigned batches = THREADS / BATCH;
    size_t settled = 0;
    for (unsigned batch = 0; batch < batches; batch++) {
        run_batch(batch);
        if (batch == batches / 5) {
            settled = claim_rss_bytes();
        }
    }
    CLAIM(claim_rss_bytes() < settled + ((size_t)4 << 20));
    return 0;
}
