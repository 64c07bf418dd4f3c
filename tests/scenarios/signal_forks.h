/* SPDX-License-Identifier: MIT */
/*
 * Signals land in threads that allocate and free, several at once; the handler forks by the call
 * that the scenario names in SIGNAL_FORKS_BY, and the child ends at once. A thread that was
 * interrupted inside of a locked section still has the lock: no fork may block on it. Blocks remain
 * intact. Has the scenario's main.
 */
#ifndef PS_TESTS_SIGNAL_FORKS_H
#define PS_TESTS_SIGNAL_FORKS_H

#include "claim.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#define THREADS 16
#define FORKS 150
#define SLOTS 400

static volatile int forks;

static void fork_now(int number) {
    int error = errno;
    (void)number;
    pid_t child = SIGNAL_FORKS_BY();
    if (child == 0) {
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        _exit(5);
    }
    __atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED);
    errno = error;
}

static void *churn(void *seed) {
    static __thread unsigned char *blocks[SLOTS];
    unsigned random = (unsigned)(uintptr_t)seed;
    while (__atomic_load_n(&forks, __ATOMIC_RELAXED) < FORKS) {
        random = random * 1664525u + 1013904223u;
        unsigned slot = (random >> 8) % SLOTS;
        size_t size = random % 8 == 0 ? (random >> 12) % 400000 : (random >> 12) % 3000;
        if (blocks[slot] != NULL) {
            CLAIM(blocks[slot][0] == slot % 256);
            free(blocks[slot]);
        }
        blocks[slot] = malloc(size + 1);
        CLAIM(blocks[slot] != NULL);
        blocks[slot][0] = (unsigned char)slot;
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        free(blocks[slot]);
    }
    return NULL;
}

int main(void) {
    slowness_alarm(80);
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = fork_now, .sa_flags = SA_RESTART};
    CLAIM(sigaction(SIGUSR1, &action, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *seed = (void *)(uintptr_t)(i + 1);
        CLAIM(pthread_create(&threads[i], NULL, churn, seed) == 0);
    }
    for (int i = 0; i < FORKS; i++) {
        CLAIM(pthread_kill(threads[i % THREADS], SIGUSR1) == 0);
        if (i % 3 != 0) { /* else the next thread is interrupted meanwhile */
            while (__atomic_load_n(&forks, __ATOMIC_RELAXED) <= i) {
                sched_yield();
            }
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    printf("forks: %d\n", forks);
    return 0;
}

#endif
