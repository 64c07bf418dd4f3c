// expect: exit 0
// marks: fork
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * quick_exit runs handlers that allocate and free what main and other threads made, while threads
 * allocate; _exit and abort-free ends by exec leave nothing hanging either.
 */
#include "claim.h"
#include "heap_use.h"

#include <pthread.h>
#include <sys/wait.h>

#define BLOCKS 800

static unsigned char *blocks[BLOCKS];
static int handlers_run;

static void *churn(void *unused) {
    (void)unused;
    for (unsigned i = 0;; i++) {
        free(claim_hide(malloc(i % 5000 + 1)));
    }
    return NULL;
}

static void *make_blocks(void *unused) {
    (void)unused;
    for (unsigned i = 1; i < BLOCKS; i += 2) {
        blocks[i] = malloc(i * 7 + 1);
        CLAIM(blocks[i] != NULL);
        blocks[i][0] = (unsigned char)i;
    }
    return NULL;
}

static void free_all(void) {
    CLAIM(++handlers_run == 2);
    CLAIM(heap_use());
    for (unsigned i = 0; i < BLOCKS; i++) {
        CLAIM(blocks[i][0] == (unsigned char)i);
        free(blocks[i]);
    }
    CLAIM(heap_use());
}

static void regrow_all(void) {
    CLAIM(++handlers_run == 1);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = realloc(blocks[i], i * 20 + 1);
        CLAIM(blocks[i] != NULL);
    }
}

static void end(int how) {
    pthread_t threads[4];
    slowness_alarm(20);
    CLAIM(at_quick_exit(free_all) == 0 && at_quick_exit(regrow_all) == 0);
    CLAIM(pthread_create(&threads[0], NULL, make_blocks, NULL) == 0);
    CLAIM(pthread_join(threads[0], NULL) == 0);
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        blocks[i] = malloc(i * 7 + 1);
        CLAIM(blocks[i] != NULL);
        blocks[i][0] = (unsigned char)i;
    }
    for (unsigned i = 0; i < 4; i++) {
        CLAIM(pthread_create(&threads[i], NULL, churn, NULL) == 0);
    }
    switch (how) {
    case 0:
        quick_exit(7);
    case 1:
        _exit(7);
    default:
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(127);
    }
}

int main(void) {
    for (int round = 0; round < 30; round++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            end(round % 3);
        }
        int status = 0;
        CLAIM(waitpid(child, &status, 0) == child);
        CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    return 0;
}
