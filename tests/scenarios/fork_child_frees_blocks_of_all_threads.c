// expect: exit 0
// marks: fork slow
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * main forks two hundred times while four threads allocate; each child frees and regrows blocks of
 * all of the parent's threads, works on, and ends by exit or by _exit. None hangs, none crashes.
 */
#include "fork_load.h"
#include "heap_use.h"

static void body(int round) {
    fork_load_work(300);
    fork_load_empty_tables();
    fork_load_work(300);
    CLAIM(heap_use());
    if (round % 2 == 0) {
        exit(0); /* with atexit handlers and library destructors */
    }
}

int main(void) {
    fork_load_start();
    for (int round = 0; round < 200; round++) {
        fork_load_child(body, round);
    }
    fork_load_stop();
    CLAIM(heap_use());
    return 0;
}
