// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* main returns while eight threads allocate: destructors run under their feet, nothing crashes. */
#include "claim.h"

#include <pthread.h>
#include <sys/wait.h>

static void *allocate_for_ever(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    void *blocks[64] = {0};
    for (;;) {
        random = random * 1103515245u + 12345u;
        unsigned slot = (random >> 8) % 64;
        free(blocks[slot]);
        blocks[slot] = malloc((random >> 12) % 20000);
        CLAIM(blocks[slot] != NULL);
    }
    return NULL;
}

static int start_and_leave(unsigned round) {
    for (unsigned i = 0; i < 8; i++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, allocate_for_ever, (void *)(uintptr_t)(i + 1)) == 0);
    }
    for (unsigned i = 0; i < 200 + round * 100; i++) {
        free(claim_hide(malloc(i * 10)));
    }
    exit(0);
}

int main(void) {
    for (unsigned round = 0; round < 40; round++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            start_and_leave(round);
        }
        int status = 0;
        CLAIM(waitpid(child, &status, 0) == child);
        CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
