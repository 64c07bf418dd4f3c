// expect: exit 0
// marks: fork
// timeout: 120
/* SPDX-License-Identifier: MIT */
/* Four threads fork at the same time, under load, and each child's heap works. */
#include "fork_load.h"
#include "heap_use.h"

static void body(int round) {
    (void)round;
    fork_load_work(200);
    fork_load_empty_tables();
}

static void *fork_often(void *unused) {
    (void)unused;
    for (int round = 0; round < 30; round++) {
        CLAIM(heap_use());
        fork_load_child(body, round);
    }
    return NULL;
}

int main(void) {
    fork_load_start();
    pthread_t forkers[4];
    for (int i = 0; i < 4; i++) {
        CLAIM(pthread_create(&forkers[i], NULL, fork_often, NULL) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CLAIM(pthread_join(forkers[i], NULL) == 0);
    }
    fork_load_stop();
    return 0;
}
