// expect: exit 0
// marks: fork slow
// timeout: 150
/* SPDX-License-Identifier: MIT */
/*
 * A storm of 2,000 forks out of a process with 32 allocating threads: a thousand children check,
 * regrow and free blocks of every parent thread, allocate, and fork a child that does so with
 * others. A deadlock anywhere ends that process by its alarm, which the parent reports.
 */
#define FORK_LOAD_THREADS 32
#define FORK_LOAD_SLOTS                                                                            \
    64 /* the less there is to copy after a fork, the more forks in a minute                       \
        */
#include "fork_load.h"
#include "heap_use.h"

#include <sched.h>
#include <semaphore.h>

#define CHILDREN 1000
#define BURSTS 4  /* per fork */
#define STEPS 300 /* per burst */

static sem_t bursts;

/*
 * All 32 allocate, a few of them around each fork: otherwise a fork would spend most of the
 * time without a processor, among 33 busy threads.
 */
static void *allocate_in_bursts(void *argument) {
    struct fork_load_table *table = argument;
    while (!fork_load_stops) {
        while (sem_wait(&bursts) != 0) {
        }
        for (unsigned i = 0; i < STEPS; i++) {
            fork_load_step(table);
        }
    }
    return NULL;
}

static void start_bursts(int count) {
    for (int i = 0; i < count; i++) {
        CLAIM(sem_post(&bursts) == 0);
    }
    sched_yield();
}

/* Checks and frees, or regrows and frees, two of the 64 blocks of every thread: each round others.
 */
static void take_some(unsigned first) {
    for (unsigned i = 0; i < FORK_LOAD_THREADS; i++) {
        for (unsigned slot = (first + i) % 32; slot < FORK_LOAD_SLOTS; slot += 32) {
            struct fork_load_block *block = fork_load_tables[i].slots[slot];
            fork_load_tables[i].slots[slot] = NULL;
            if (block == NULL) {
                continue;
            }
            fork_load_check(block);
            if (block->size < 100000 && slot % 4 == 0) {
                block = realloc(block, sizeof *block + block->size * 2 + 1);
                CLAIM(block != NULL);
                fork_load_check(block);
            }
            free(block);
        }
    }
}

static void grandchild(int round) {
    take_some((unsigned)round + 1); /* the next ones, which its parent left */
    fork_load_work(20);
    CLAIM(round % 16 != 0 || heap_use());
}

static void child(int round) {
    fork_load_work(20);
    take_some((unsigned)round);
    fork_load_child(grandchild, round);
}

int main(void) {
    slowness_alarm(140);
    CLAIM(sem_init(&bursts, 0, 0) == 0);
    for (unsigned i = 0; i < FORK_LOAD_THREADS; i++) {
        struct fork_load_table *table = &fork_load_tables[i];
        table->random = i * 7919u + 17u;
        CLAIM(pthread_create(&table->thread, NULL, allocate_in_bursts, table) == 0);
    }
    for (int round = 0; round < CHILDREN; round++) {
        start_bursts(BURSTS);
        fork_load_child(child, round);
    }
    fork_load_stops = 1;
    start_bursts(FORK_LOAD_THREADS);
    fork_load_stop();
    fork_load_empty_tables();
    CLAIM(heap_use());
    printf("forks: %d\n", 2 * CHILDREN);
    return 0;
}
