// expect: exit 0
// marks: slow
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * Threads that sleep and notice at all times, for a few milliseconds or a few hundred, while others
 * work: fronts that they use return blocks meanwhile. Every block carries a pattern that tells
 * when it is two owners'; blocks are freed in order and at random, by their thread and by others;
 * some threads end, some fork, and the children use what their parents have. A signal handler stops
 * a thread wherever it is, for long. An argument: seconds.
 */
#include "claim.h"
#include "heap_use.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS 12
#define WORKERS 2 /* of them never sleep for long: time passes in the allocator */
#define LIVE 600
#define SHARED 512
#define CHILD_SECONDS 60
#define SECONDS 8

struct block {
    uint64_t mark;
    size_t bytes;
};

static struct block *_Atomic shared[SHARED];
static _Atomic bool is_over;
static _Atomic unsigned births;

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static unsigned char *last_byte(struct block *block) {
    return (unsigned char *)block + block->bytes - 1;
}

/* Mostly one size of many, so that frees in order make free streaks. */
static size_t random_bytes(uint64_t *state) {
    uint64_t kind = next_random(state) % 100;
    size_t limit = kind < 70 ? 256 : kind < 95 ? 4096 : 70000;
    return kind < 40 ? 48 : sizeof(struct block) + 1 + next_random(state) % limit;
}

static struct block *make(uint64_t *state) {
    size_t bytes = random_bytes(state);
    struct block *block =
        next_random(state) % 8 == 0 ? calloc(1, bytes) : claim_hide(malloc(bytes));
    CLAIM(block != NULL);
    block->bytes = bytes;
    block->mark = (uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u ^ bytes;
    *last_byte(block) = (unsigned char)(block->mark >> 56);
    return block;
}

static void check(struct block *block) {
    CLAIM(block->mark == ((uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u ^ block->bytes));
    CLAIM(*last_byte(block) == (unsigned char)(block->mark >> 56));
}

static void end(struct block *block) {
    if (block != NULL) {
        check(block);
        block->mark = 0;
        free(block);
    }
}

static struct block *resized(struct block *block, uint64_t *state) {
    check(block);
    size_t bytes = random_bytes(state);
    block = realloc(block, bytes);
    CLAIM(block != NULL);
    block->bytes = bytes;
    block->mark = (uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u ^ bytes;
    *last_byte(block) = (unsigned char)(block->mark >> 56);
    return block;
}

static void sleep_ms(uint64_t ms) {
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000},
        NULL);
}

static void stop_for_long(int signal) {
    (void)signal;
    int saved_errno = errno;
    sleep_ms(150);
    errno = saved_errno;
}

/* A burst of work on a table of one's own; a part goes through the shared one. */
static void work(struct block **live, uint64_t *state) {
    unsigned steps = 50 + next_random(state) % 2000;
    for (unsigned i = 0; i < steps; i++) {
        unsigned at = next_random(state) % LIVE;
        uint64_t kind = next_random(state) % 20;
        if (kind == 0) {
            live[at] = atomic_exchange(&shared[next_random(state) % SHARED], live[at]);
        } else if (kind == 1 && live[at] != NULL) {
            live[at] = resized(live[at], state);
        } else {
            end(live[at]);
            live[at] = kind < 12 ? make(state) : NULL;
        }
    }
    if (next_random(state) % 4 == 0) { /* in the order of their addresses, as a rule */
        for (unsigned i = 0; i < LIVE; i++) {
            end(live[i]);
            live[i] = NULL;
        }
    }
}

static void fork_and_use(struct block **live) {
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        slowness_alarm(CHILD_SECONDS);
        for (unsigned i = 0; i < LIVE; i++) {
            end(live[i]);
        }
        for (unsigned i = 0; i < SHARED; i++) {
            end(atomic_exchange(&shared[i], NULL));
        }
        CLAIM(heap_use());
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        CLAIM(errno == EINTR);
    }
    CLAIM(status == 0);
}

static void *live_and_sleep(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    uint64_t state = 0x9e3779b97f4a7c15u * (self + 1 + atomic_fetch_add(&births, 1) * 64);
    struct block *live[LIVE] = {NULL};
    bool is_worker = self < WORKERS;
    while (!atomic_load(&is_over)) {
        work(live, &state);
        uint64_t kind = next_random(&state) % 100;
        if (is_worker) {
            sleep_ms(kind % 2);
        } else if (kind < 70) {
            sleep_ms(next_random(&state) % 40);
        } else {
            sleep_ms(next_random(&state) % 400);
        }
        if (!is_worker && kind == 0) {
            fork_and_use(live);
        }
        if (kind == 1) {
            malloc_trim(0);
        }
        if (!is_worker && kind == 2) {
            break;
        }
    }
    for (unsigned i = 0; i < LIVE; i++) {
        end(live[i]);
    }
    return argument;
}

int main(int argc, char **argv) {
    time_t seconds = argc > 1 ? atoi(argv[1]) : SECONDS;
    pthread_t threads[THREADS];
    struct timespec begin;
    struct timespec now;
    uint64_t state = 88172645463325252u;
    CLAIM(sigaction(SIGUSR1,
                    &(struct sigaction){.sa_handler = stop_for_long, .sa_flags = SA_RESTART},
                    NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, live_and_sleep, (void *)(uintptr_t)i) == 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        sleep_ms(20);
        unsigned at = WORKERS + next_random(&state) % (THREADS - WORKERS);
        if (pthread_tryjoin_np(threads[at], NULL) == 0) {
            CLAIM(pthread_create(&threads[at], NULL, live_and_sleep, (void *)(uintptr_t)at) == 0);
        }
        CLAIM(pthread_kill(threads[next_random(&state) % THREADS], SIGUSR1) == 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < seconds);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    for (unsigned i = 0; i < SHARED; i++) {
        end(atomic_exchange(&shared[i], NULL));
    }
    return 0;
}
