// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=20
/* SPDX-License-Identifier: MIT */
/*
 * The background thread comes with the program's first thread. When those have ended it ends, too,
 * so that the program can do what a process of one thread may do only; and comes again with the
 * next.
 */
#include "tasks.h"

#include <pthread.h>
#include <sched.h>

int main(void) {
    pthread_barrier_init(&tasks_may_end, NULL, 3);
    CLAIM(tasks_list().count == 1);
    for (int round = 0; round < 3; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            CLAIM(pthread_create(&threads[i], NULL, tasks_wait, NULL) == 0);
        }
        tasks_await(4, 1);
        pthread_barrier_wait(&tasks_may_end);
        for (int i = 0; i < 2; i++) {
            CLAIM(pthread_join(threads[i], NULL) == 0);
        }
        tasks_await(1, 0);
        /* EPERM: no program may have a user namespace here. EINVAL: there is another thread. */
        CLAIM(round < 2 || unshare(CLONE_NEWUSER) == 0 || errno != EINVAL);
    }
    return 0;
}
