// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=1
// marks: fork slow
// timeout: 120
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Processes that end in every way while the background thread releases memory: by exit with its
 * handlers, by _exit, by the end of the last thread. Each ends with its own status, and at once:
 * one that hangs ends by its alarm.
 */
#include "heap_use.h"
#include "silence.h"

#include <sys/wait.h>

#define CHILDREN 90
#define ROUNDS_LIMIT 8

static void *blocks[2][SILENCE_BLOCKS];
static int rounds;

static void use_the_heap(void) { CLAIM(heap_use()); }

static void *rise_and_fall(void *own_blocks) {
    for (int round = 0; round < rounds; round++) {
        silence_rise(own_blocks);
        silence_fall(own_blocks);
    }
    return NULL;
}

static void end_in_some_way(int child) {
    pthread_t thread;
    slowness_alarm(60);
    rounds = child % ROUNDS_LIMIT;
    CLAIM(atexit(use_the_heap) == 0);
    CLAIM(pthread_create(&thread, NULL, rise_and_fall, blocks[0]) == 0);
    (void)rise_and_fall(blocks[1]);
    if (child % 3 == 0) {
        exit(7);
    }
    if (child % 3 == 1) {
        _exit(7);
    }
    pthread_exit(NULL); /* the process ends with its other thread: status 0 */
}

int main(void) {
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            end_in_some_way(i);
        }
        int status;
        CLAIM(waitpid(child, &status, 0) == child);
        CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == (i % 3 == 2 ? 0 : 7));
    }
    return 0;
}
