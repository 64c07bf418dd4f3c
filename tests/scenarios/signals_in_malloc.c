// expect: exit 0
// marks: slow
// timeout: 90
/* SPDX-License-Identifier: MIT */
/*
 * Timer signals land in malloc, free and realloc of five threads, thousands of them, and the
 * handler calls what POSIX allows there: write, read, clock_gettime, getpid, sem_post, kill of
 * no process, sigprocmask. No deadlock, and every pattern is intact.
 */
#include "claim.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#define THREADS 5
#define SIGNALS 1500
#define SLOTS 300

static sem_t posted;
static int pipe_ends[2];
static volatile int signals;

static void on_signal(int number) {
    int error = errno;
    char byte = (char)number;
    struct timespec now;
    sigset_t none;
    sigemptyset(&none);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (write(pipe_ends[1], &byte, 1) == 1 && read(pipe_ends[0], &byte, 1) != 1) {
        _exit(3);
    }
    sigprocmask(SIG_BLOCK, &none, NULL);
    sem_post(&posted);
    kill(getpid(), 0);
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
    errno = error;
}

struct block {
    unsigned char *bytes;
    size_t size;
};

static size_t size_of(unsigned random) {
    return random % 64 == 0 ? random % 300000 + 1 : random % 2500 + 1;
}

static void *churn(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    struct block *blocks = calloc(SLOTS, sizeof *blocks);
    CLAIM(blocks != NULL);
    while (__atomic_load_n(&signals, __ATOMIC_RELAXED) < SIGNALS) {
        random = random * 1664525u + 1013904223u;
        unsigned slot = (random >> 9) % SLOTS;
        struct block *block = &blocks[slot];
        CLAIM(block->size == 0 ||
              claim_is_filled(block->bytes, ((block->size - 1) & 63) + 1, slot));
        size_t size = size_of(random >> 11);
        if (random >> 31 != 0) {
            free(block->bytes);
            block->bytes = malloc(size);
        } else {
            block->bytes = realloc(block->bytes, size);
        }
        CLAIM(block->bytes != NULL);
        block->size = size;
        claim_fill(block->bytes, ((size - 1) & 63) + 1, slot);
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        free(blocks[slot].bytes);
    }
    free(blocks);
    return NULL;
}

int main(void) {
    slowness_alarm(80);
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 200}, {0, 200}};
    CLAIM(pipe(pipe_ends) == 0 && sem_init(&posted, 0, 0) == 0);
    CLAIM(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGVTALRM, &action, NULL) == 0);
    action.sa_flags |= SA_NODEFER; /* handlers within handlers */
    CLAIM(sigaction(SIGUSR1, &action, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *seed = (void *)(uintptr_t)(i + 1);
        CLAIM(pthread_create(&threads[i], NULL, churn, seed) == 0);
    }
    CLAIM(setitimer(ITIMER_PROF, &timer, NULL) == 0);
    for (unsigned i = 0; __atomic_load_n(&signals, __ATOMIC_RELAXED) < SIGNALS; i++) {
        int before = __atomic_load_n(&signals, __ATOMIC_RELAXED);
        CLAIM(pthread_kill(threads[i % THREADS], SIGUSR1) == 0);
        while (i % 4 != 0 && __atomic_load_n(&signals, __ATOMIC_RELAXED) == before) {
            sched_yield();
        }
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    CLAIM(setitimer(ITIMER_PROF, &timer, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    printf("signals: %d\n", signals);
    return 0;
}
