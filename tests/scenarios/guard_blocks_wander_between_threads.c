// expect: exit 0
// env: POOLSHIM_GUARD_SAMPLE=3 POOLSHIM_GUARD_SLOTS=40
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* Many threads allocate, pass on and free guarded blocks, and fork meanwhile. */
#include "guarded.h"

#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 8, ROUNDS = 4000, PLACES = 64 };

static char *places[PLACES];

static void *work(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525u + 1013904223u;
        size_t size = state >> 8 & 1023;
        char *block = malloc(size + 2);
        CLAIM(block != NULL);
        block[0] = (char)size;
        block[size + 1] = (char)size;
        block = __atomic_exchange_n(&places[state >> 20 & (PLACES - 1)], block, __ATOMIC_ACQ_REL);
        if (block != NULL) {
            free(i % 2 == 0 ? block : realloc(block, 2000));
        }
        if (i % 1000 == 0) {
            pid_t pid = fork();
            if (pid == 0) {
                free(malloc(63));
                _exit(0);
            }
            int status = 1;
            CLAIM(waitpid(pid, &status, 0) == pid && status == 0);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
