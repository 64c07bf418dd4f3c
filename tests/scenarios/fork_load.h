/* SPDX-License-Identifier: MIT */
/*
 * The load under which the fork scenarios fork: threads that allocate at full speed, all size
 * regimes, into tables that a child may empty; and the parent's view of a child. One thread calls
 * start, run_child and stop; the load threads own their table, except during a fork.
 */
#ifndef PS_TESTS_FORK_LOAD_H
#define PS_TESTS_FORK_LOAD_H

#include "claim.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#ifndef FORK_LOAD_THREADS /* a scenario may define more */
#define FORK_LOAD_THREADS 4
#endif
#ifndef FORK_LOAD_SLOTS
#define FORK_LOAD_SLOTS 256
#endif

struct fork_load_block {
    size_t size;
    unsigned char bytes[];
};

struct fork_load_table {
    pthread_t thread;
    unsigned random;
    /* A slot is empty while its block is made or freed: what a fork child finds in it is whole. */
    struct fork_load_block *volatile slots[FORK_LOAD_SLOTS];
};

static struct fork_load_table fork_load_tables[FORK_LOAD_THREADS];
static volatile int fork_load_stops;

static size_t fork_load_size(unsigned random) {
    unsigned kind = random % 2000;
    if (kind == 0) {
        return 4500000 + random % 3000000;
    }
    if (kind < 20) {
        return 70000 + random % 400000;
    }
    return kind < 150 ? 1500 + random % 40000 : random % 1200;
}

static void fork_load_check(const struct fork_load_block *block) {
    unsigned char mark = (unsigned char)(block->size * 7 + 1);
    CLAIM(block->bytes[0] == mark && block->bytes[block->size] == mark);
}

static struct fork_load_block *fork_load_make(size_t size) {
    struct fork_load_block *block =
        (struct fork_load_block *)malloc(sizeof(struct fork_load_block) + size + 1);
    CLAIM(block != NULL);
    block->size = size;
    block->bytes[0] = block->bytes[size] = (unsigned char)(size * 7 + 1);
    return block;
}

static void fork_load_step(struct fork_load_table *table) {
    table->random = table->random * 1664525u + 1013904223u;
    unsigned slot = (table->random >> 10) % FORK_LOAD_SLOTS;
    struct fork_load_block *old = table->slots[slot];
    table->slots[slot] = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (old != NULL) {
        fork_load_check(old);
        free(old);
    }
    struct fork_load_block *fresh = fork_load_make(fork_load_size(table->random >> 4));
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    table->slots[slot] = fresh;
}

__attribute__((unused)) static void *fork_load_run(void *argument) {
    struct fork_load_table *table = (struct fork_load_table *)argument;
    while (!fork_load_stops) {
        fork_load_step(table);
    }
    return NULL;
}

__attribute__((unused)) static void fork_load_start(void) {
    for (unsigned i = 0; i < FORK_LOAD_THREADS; i++) {
        struct fork_load_table *table = &fork_load_tables[i];
        table->random = i * 7919u + 17u;
        CLAIM(pthread_create(&table->thread, NULL, fork_load_run, table) == 0);
    }
}

__attribute__((unused)) static void fork_load_stop(void) {
    fork_load_stops = 1;
    for (unsigned i = 0; i < FORK_LOAD_THREADS; i++) {
        CLAIM(pthread_join(fork_load_tables[i].thread, NULL) == 0);
    }
}

/* In a fork child: frees, or regrows and frees, all blocks that other threads had at the fork. */
__attribute__((unused)) static void fork_load_empty_tables(void) {
    for (unsigned i = 0; i < FORK_LOAD_THREADS; i++) {
        for (unsigned slot = 0; slot < FORK_LOAD_SLOTS; slot++) {
            struct fork_load_block *block = fork_load_tables[i].slots[slot];
            fork_load_tables[i].slots[slot] = NULL;
            if (block == NULL) {
                continue;
            }
            fork_load_check(block);
            if (slot % 8 == 0) {
                block =
                    (struct fork_load_block *)realloc(block, sizeof *block + block->size * 2 + 1);
                CLAIM(block != NULL);
                fork_load_check(block);
            }
            free(block);
        }
    }
}

/* In a fork child: some work of its own, by the same rules. */
__attribute__((unused)) static void fork_load_work(unsigned steps) {
    static struct fork_load_table own;
    own.random = (unsigned)getpid();
    for (unsigned i = 0; i < steps; i++) {
        fork_load_step(&own);
    }
}

/* Forks; the child has ten seconds for `body` and must then end with status 0. */
__attribute__((unused)) static void fork_load_child(void (*body)(int), int argument) {
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        slowness_alarm(10);
        body(argument);
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        CLAIM(!"the fork child hangs");
    }
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
