// expect: exit 0 "left by the last thread"
// env: POOLSHIM_PURGE_DELAY_MS=60000
/* SPDX-License-Identifier: MIT */
/*
 * main leaves by pthread_exit. When the last of the program's threads has ended the process ends,
 * as if that thread had called exit: the handlers run in it, with its stack, although the
 * background thread was there.
 */
#include "tasks.h"

#include <pthread.h>

#define STACK_USED ((size_t)512 << 10)

static int last_thread;
static pthread_barrier_t has_begun;

static void report(void) {
    volatile char deep[STACK_USED];
    deep[0] = deep[sizeof deep - 1] = 1;
    free(claim_hide(malloc(1000)));
    CLAIM(gettid() == last_thread);
    dprintf(2, "left by the last thread\n");
}

/* main ends slowly where pthread_exit has to load the unwinder first. */
static void await_end_of_main(void) {
    char number[16];
    char status[400];
    snprintf(number, sizeof number, "%d", getpid());
    do {
        tasks_pause();
        tasks_read(number, "stat", status, sizeof status);
    } while (strstr(status, ") Z") == NULL);
}

static void *work(void *before) {
    free(claim_hide(malloc(100)));
    if (before != NULL) {
        pthread_barrier_wait(&has_begun);
        tasks_await(3, 1); /* main is still listed */
        await_end_of_main();
        last_thread = gettid();
    }
    return NULL;
}

int main(void) {
    static pthread_t main_thread;
    pthread_t first;
    pthread_t second;
    pthread_attr_t attributes; /* musl's stacks have 128 KiB */
    main_thread = pthread_self();
    CLAIM(atexit(report) == 0);
    CLAIM(pthread_create(&first, NULL, work, NULL) == 0);
    CLAIM(pthread_join(first, NULL) == 0);
    pthread_barrier_init(&has_begun, NULL, 2);
    CLAIM(pthread_attr_init(&attributes) == 0);
    CLAIM(pthread_attr_setstacksize(&attributes, 2 * STACK_USED) == 0);
    CLAIM(pthread_create(&second, &attributes, work, &main_thread) == 0);
    pthread_barrier_wait(&has_begun);
    pthread_exit(NULL);
}
