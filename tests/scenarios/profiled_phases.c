// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Memory that comes and goes, for the files that POOLSHIM_PROFILE writes meanwhile. Modes:
 *
 *   peak (the default)  has most live memory in the middle, from two functions
 *   fork                has its peak in a child
 *   busy NAME           allocates until a file is there
 *   silent NAME         has threads, and makes no call until a file is there
 */
#include "claim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 40
#define BLOCK_BYTES ((size_t)1 << 20)
#define SECONDS_MAX 60

static char *blocks[BLOCKS];

__attribute__((noinline)) static void hold_at_peak(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        memset(blocks[i], 1, 100);
    }
}

__attribute__((noinline)) static void let_go(void) {
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

__attribute__((noinline)) static void hold_at_end(void) {
    for (int i = 0; i < BLOCKS / 10; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        memset(blocks[i], 1, 100);
    }
}

static void have_peak(void) {
    hold_at_peak();
    let_go();
    hold_at_end();
}

static void fork_peak(void) {
    pid_t child = fork();
    if (child == 0) {
        have_peak();
        exit(0);
    }
    int status = 1;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
}

static void await(const char *name, int is_busy) {
    struct timespec pause = {.tv_nsec = 10000000};
    time_t start = time(NULL);
    while (access(name, F_OK) != 0) {
        CLAIM(time(NULL) - start < SECONDS_MAX);
        if (is_busy) {
            hold_at_peak();
            let_go();
        } else {
            nanosleep(&pause, NULL);
        }
    }
}

static void *wait_for_end(void *lock) {
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

static void be_silent(const char *name) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    CLAIM(pthread_create(&thread, NULL, wait_for_end, &lock) == 0);
    hold_at_end();
    await(name, 0);
    pthread_mutex_unlock(&lock);
    CLAIM(pthread_join(thread, NULL) == 0);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "peak";
    if (strcmp(mode, "busy") == 0) {
        await(words[2], 1);
    } else if (strcmp(mode, "silent") == 0) {
        be_silent(words[2]);
    } else if (strcmp(mode, "fork") == 0) {
        fork_peak();
    } else {
        have_peak();
    }
    return 0;
}
