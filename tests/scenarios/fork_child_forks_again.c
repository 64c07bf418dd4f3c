// expect: exit 0
// marks: fork
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * Children of a threaded parent fork in turn, four generations deep, and each generation frees,
 * allocates, starts threads that do so too, and lets them end.
 */
#include "fork_load.h"
#include "heap_use.h"

static void *work_in_thread(void *argument) {
    struct fork_load_table *table = calloc(1, sizeof *table);
    CLAIM(table != NULL);
    table->random = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < 2000; i++) {
        fork_load_step(table);
    }
    for (unsigned slot = 0; slot < FORK_LOAD_SLOTS; slot++) {
        free(table->slots[slot]);
    }
    free(table);
    return NULL;
}

static void body(int depth) {
    if (depth % 2 == 0) {
        fork_load_empty_tables();
    }
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++) {
        CLAIM(pthread_create(&threads[i], NULL, work_in_thread, (void *)(i + 1)) == 0);
    }
    if (depth < 4) {
        fork_load_child(body, depth + 1);
    }
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    fork_load_work(500);
    CLAIM(heap_use());
}

int main(void) {
    fork_load_start();
    for (int round = 0; round < 15; round++) {
        fork_load_child(body, round % 2);
    }
    fork_load_stop();
    return 0;
}
