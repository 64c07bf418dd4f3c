// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=10000
// timeout: 14
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * When the join of the last other thread returns, by whichever function, the background thread has
 * ended, too, although the delay for freed memory is ten seconds: the process has one thread, and
 * may do what only such a process may do. The next thread has a background thread again.
 */
#include "tasks.h"

#include <sched.h>
#include <threads.h>

#define WAYS 5
#define PAUSES 20 /* the work that is left takes 1/32 of the time at most */

static int wait_in_c11(void *unused) { return tasks_wait(unused) != NULL; }

static void create_and_join(int way) {
    struct timespec until;
    pthread_t thread;
    clock_gettime(way == 3 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &until);
    until.tv_sec += 50;
    if (way == 0) {
        CLAIM(thrd_create(&thread, wait_in_c11, NULL) == thrd_success);
    } else {
        CLAIM(pthread_create(&thread, NULL, tasks_wait, NULL) == 0);
    }
    tasks_await(3, 1);
    CLAIM(pthread_tryjoin_np(thread, NULL) == EBUSY);
    CLAIM(tasks_list().background != 0);
    for (int i = 0; i < PAUSES; i++) {
        tasks_pause();
    }
    pthread_barrier_wait(&tasks_may_end);
    switch (way) {
    case 0:
        CLAIM(thrd_join(thread, NULL) == thrd_success);
        break;
    case 1:
        CLAIM(pthread_join(thread, NULL) == 0);
        break;
    case 2:
        CLAIM(pthread_timedjoin_np(thread, NULL, &until) == 0);
        break;
    case 3:
        CLAIM(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0);
        break;
    default:
        while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
            tasks_pause();
        }
    }
    tasks_await(1, 0); /* a task may be listed a little longer than it exists */
}

int main(void) {
    pthread_barrier_init(&tasks_may_end, NULL, 2);
    for (int way = 0; way < WAYS; way++) {
        create_and_join(way);
    }
    /* EPERM: no program may have a user namespace here. EINVAL: there is another thread. */
    CLAIM(unshare(CLONE_NEWUSER) == 0 || errno != EINVAL);
    return 0;
}
