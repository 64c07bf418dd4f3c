// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=1
// marks: fork slow
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * Forks out of a process whose threads rise and fall while the background thread takes their heaps
 * and releases what they free: each child has one thread, uses the heap, and every fourth starts a
 * thread of its own, which brings a background thread again. A deadlock ends a child by its alarm.
 */
#include "fork_load.h"
#include "heap_use.h"
#include "silence.h"
#include "tasks.h"

#include <stdbool.h>
#include <time.h>

#define CHILDREN 200
#define THREADS 3

static void *blocks[THREADS][SILENCE_BLOCKS];
static volatile int stops;

static void *rise_and_fall(void *own_blocks) {
    const struct timespec pause = {0, 120000000}; /* the heap is taken meanwhile */
    for (int round = 0; !stops; round++) {
        silence_rise(own_blocks);
        silence_fall(own_blocks);
        if (round % 2 == 0) {
            nanosleep(&pause, NULL);
        }
    }
    return NULL;
}

static void *use_in_thread(void *unused) {
    CLAIM(heap_use());
    return unused;
}

/* A thread that was joined may still be on its way out of the kernel. */
static bool has_two_tasks_soon(void) {
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 1000 && tasks_list().count > 2; i++) {
        nanosleep(&pause, NULL);
    }
    return tasks_list().count <= 2;
}

static void child(int round) {
    CLAIM(tasks_list().count == 1);
    CLAIM(heap_use());
    if (round % 4 == 0) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, use_in_thread, NULL) == 0);
        CLAIM(heap_use());
        CLAIM(pthread_join(thread, NULL) == 0);
        CLAIM(has_two_tasks_soon());
    }
}

int main(void) {
    pthread_t threads[THREADS];
    slowness_alarm(110);
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, rise_and_fall, blocks[i]) == 0);
    }
    for (int round = 0; round < CHILDREN; round++) {
        fork_load_child(child, round);
    }
    stops = 1;
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
