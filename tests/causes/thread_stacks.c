// verdict: stacks
/* SPDX-License-Identifier: MIT */
/* Threads that have been deep in their stacks, and sleep. */
#include "tests/causes/cause.h"

#include <pthread.h>

#define THREADS 40

static pthread_barrier_t deep;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

SITE unsigned go_deep(unsigned frames) {
    volatile char frame[8000];
    for (size_t i = 0; i < sizeof frame; i += 1000) {
        frame[i] = (char)frames;
    }
    return frames == 0 ? 0 : go_deep(frames - 1) + (unsigned)frame[1000];
}

static void *run(void *argument) {
    (void)go_deep(120);
    pthread_barrier_wait(&deep);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    seed_from(argc, argv);
    pthread_barrier_init(&deep, NULL, THREADS + 1);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, run, NULL) != 0) {
            return 1;
        }
    }
    pthread_barrier_wait(&deep);
    work_on(180);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
