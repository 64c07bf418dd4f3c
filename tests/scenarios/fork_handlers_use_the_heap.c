// expect: exit 0
// marks: fork slow
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * pthread_atfork handlers of the program allocate and free before the fork and after it, in
 * parent and child; those registered before main as well as later ones.
 */
#include "fork_load.h"
#include "heap_use.h"

static void *kept[3];
static int handler_runs;

static void use_in_handler(void) {
    CLAIM(heap_use());
    for (int i = 0; i < 3; i++) {
        free(kept[i]);
        kept[i] = malloc((size_t)1 << (8 * i + 3));
        CLAIM(kept[i] != NULL);
    }
    handler_runs++;
}

static void register_handlers(void) {
    if (pthread_atfork(use_in_handler, use_in_handler, use_in_handler) != 0) {
        _exit(4);
    }
}

__attribute__((section(".preinit_array"),
               used)) static void (*const preinit_entry)(void) = register_handlers;

static void body(int round) {
    CLAIM(handler_runs == 4 * (round + 1));
    fork_load_empty_tables();
    fork_load_work(200);
}

int main(void) {
    register_handlers();
    fork_load_start();
    for (int round = 0; round < 40; round++) {
        fork_load_child(body, round);
    }
    fork_load_stop();
    CLAIM(handler_runs == 160);
    return 0;
}
