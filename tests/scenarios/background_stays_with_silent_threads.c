// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=20
/* SPDX-License-Identifier: MIT */
/*
 * The background thread does not end while a thread exists that has not allocated yet. When that
 * thread allocates, free memory is released although no other thread is created.
 */
#include "tasks.h"

#include <pthread.h>

#define SILENCE_PAUSES 300 /* 1.5 s: the background thread would have ended */

static pthread_barrier_t may_end;

static void *wait_without_heap(void *unused) {
    pthread_barrier_wait(&may_end);
    free(claim_hide(malloc(100)));
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&may_end, NULL, 2);
    CLAIM(pthread_create(&thread, NULL, wait_without_heap, NULL) == 0);
    CLAIM(tasks_list().background != 0);
    for (int i = 0; i < SILENCE_PAUSES; i++) {
        tasks_pause();
    }
    CLAIM(tasks_list().background != 0);
    pthread_barrier_wait(&may_end);
    CLAIM(pthread_join(thread, NULL) == 0);
    tasks_await(1, 0);
    return 0;
}
