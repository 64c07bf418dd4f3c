// expect: SIGTERM
// env: POOLSHIM_STATS=/dev/null
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * SIGTERM ends the process, with a report, although it is delivered to a thread whose cancellation
 * is pending: the report is no point of cancellation, at which the thread alone would end.
 */
#include "claim.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

static bool x_is_cancelled;

static void *raise_when_cancelled(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&x_is_cancelled, __ATOMIC_ACQUIRE)) {
    }
    (void)raise(SIGTERM);
    return NULL;
}

int main(void) {
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, raise_when_cancelled, NULL) == 0);
    CLAIM(pthread_cancel(thread) == 0);
    __atomic_store_n(&x_is_cancelled, true, __ATOMIC_RELEASE);
    CLAIM(pthread_join(thread, NULL) == 0);
    return 0;
}
