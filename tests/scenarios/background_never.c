// expect: exit 0
// env: POOLSHIM_BACKGROUND=0 POOLSHIM_PURGE_DELAY_MS=1
/* SPDX-License-Identifier: MIT */
/* With BACKGROUND=0 the process has the program's threads and no other. */
#include "tasks.h"

#include <pthread.h>

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&tasks_may_end, NULL, 4);
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_create(&threads[i], NULL, tasks_wait, NULL) == 0);
        struct tasks tasks = tasks_list();
        CLAIM(tasks.count == i + 2 && tasks.background == 0);
    }
    pthread_barrier_wait(&tasks_may_end);
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
