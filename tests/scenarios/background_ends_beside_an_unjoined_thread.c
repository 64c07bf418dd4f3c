// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=20
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * A thread that never allocates has ended, and is not joined yet: the background thread ends too,
 * so that a program that polls until it has one thread continues. Signals and a cancellation of the
 * ended thread do nothing, and it can be joined.
 */
#include "tasks.h"

#include <pthread.h>
#include <signal.h>

static void *do_nothing(void *unused) { return unused; }

int main(void) {
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
    tasks_await(1, 0);
    CLAIM(pthread_kill(thread, SIGUSR1) == 0);
    CLAIM(pthread_cancel(thread) == 0);
    CLAIM(pthread_join(thread, NULL) == 0);
    return 0;
}
