/* SPDX-License-Identifier: MIT */
/*
 * Keeps 20 MiB, and allocates 10 MB a second in a thread until its input ends. Prints "ready".
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1000, BLOCKS = 21000, TURN_BLOCKS = 200, TURN_MS = 20 };

static void *volatile newest;

static __attribute__((noinline)) void grow_here(void) {
    newest = memset(malloc(BLOCK_BYTES), 1, BLOCK_BYTES);
}

static void *go_on(void *unused) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, TURN_MS) == 0) {
        for (int i = 0; i < TURN_BLOCKS; i++) {
            grow_here();
        }
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < BLOCKS; i++) {
        grow_here();
    }
    puts("ready");
    fflush(stdout);
    return pthread_create(&thread, NULL, go_on, NULL) != 0 || pthread_join(thread, NULL) != 0;
}
