// expect: exit 0
// env: POOLSHIM_BACKGROUND=0 POOLSHIM_PURGE_DELAY_MS=1
/* SPDX-License-Identifier: MIT */
/* With BACKGROUND=0 the process has the program's threads and no other. */
#include "tasks.h"

#include <pthread.h>

static pthread_barrier_t is_over;

static void *wait_for_end(void *unused) {
    free(claim_hide(malloc(100)));
    pthread_barrier_wait(&is_over);
    return unused;
}

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&is_over, NULL, 4);
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_create(&threads[i], NULL, wait_for_end, NULL) == 0);
        struct tasks tasks = tasks_list();
        CLAIM(tasks.count == i + 2 && tasks.background == 0);
    }
    pthread_barrier_wait(&is_over);
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
