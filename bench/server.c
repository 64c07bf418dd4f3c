/* SPDX-License-Identifier: MIT */
/*
 * A server: threads own tables of blocks and replace random ones; after a while a thread passes
 * its whole table to a new thread and ends. The new one frees blocks that another, dead thread
 * made. The pattern of the larson benchmark: connections that outlive the threads that serve them.
 *
 * Timed, wall clock: `threads` chains of `generations` threads each, from the first start to the
 * last end, creation of threads included. Not timed: filling the tables. Each block is marked when
 * made and checked when freed. An operation is one replacement.
 */
#include "lib/workload.h"

#include <pthread.h>
#include <semaphore.h>

enum { THREAD_LIMIT = 256 };

static uint64_t threads = 2;
static uint64_t slots = 5000;
static uint64_t min_bytes = 16;
static uint64_t max_bytes = 1024;
static uint64_t generations = 20;
static uint64_t operations = 50000;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"threads", &threads, 1, THREAD_LIMIT, "threads at a time"},
    {"slots", &slots, 1, 10000000, "blocks per thread"},
    {"min", &min_bytes, 16, 1 << 20, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 20, "largest block, bytes"},
    {"generations", &generations, 1, 1000000, "threads that serve each table in turn"},
    {"operations", &operations, 1, 1000000000, "replacements per thread"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

/* One table; belongs to the thread that serves it, to main between rounds. */
struct chain {
    struct slot {
        void *block;
        uint64_t bytes;
    } *slots;
    uint64_t state;
    uint64_t generations_left;
} __attribute__((aligned(64)));

static struct chain chains[THREAD_LIMIT];
static uint32_t sizes[BENCH_SIZE_COUNT];
static sem_t chain_ends;

static void slot_fill(struct chain *chain, struct slot *slot, uint64_t draw) {
    slot->bytes = sizes[draw % BENCH_SIZE_COUNT];
    slot->block = bench_malloc(slot->bytes);
    bench_mark(slot->block, slot->bytes, (uint64_t)(slot - chain->slots));
}

static void slot_empty(const struct chain *chain, struct slot *slot) {
    bench_check(slot->block, slot->bytes, (uint64_t)(slot - chain->slots));
    free(slot->block);
}

static void start_thread(struct chain *chain);

static void *serve(void *argument) {
    struct chain *chain = argument;
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t draw = bench_random(&chain->state);
        struct slot *slot = &chain->slots[(draw >> 32) * slots >> 32];
        slot_empty(chain, slot);
        slot_fill(chain, slot, draw);
    }
    if (--chain->generations_left == 0) {
        sem_post(&chain_ends);
    } else {
        start_thread(chain);
    }
    return NULL;
}

static void start_thread(struct chain *chain) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, serve, chain);
    if (error != 0) {
        bench_fail("pthread_create: %s", strerror(error));
    }
    pthread_detach(thread);
}

int main(int argc, char **argv) {
    bench_parse("server", "Threads replace random blocks and pass them on to new threads.", options,
                argc, argv);
    bench_fill_sizes(sizes, min_bytes, max_bytes < min_bytes ? min_bytes : max_bytes, false);
    sem_init(&chain_ends, 0, 0);
    for (uint64_t i = 0; i < threads; i++) {
        chains[i].slots = bench_table(slots * sizeof(*chains[i].slots));
        chains[i].state = 0x243f6a8885a308d3u + i;
        for (uint64_t j = 0; j < slots; j++) {
            slot_fill(&chains[i], &chains[i].slots[j], bench_random(&chains[i].state));
        }
    }
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        for (uint64_t j = 0; j < threads; j++) {
            chains[j].generations_left = generations;
            start_thread(&chains[j]);
        }
        for (uint64_t j = 0; j < threads; j++) {
            while (sem_wait(&chain_ends) != 0) {
            }
        }
        bench_round_end(threads * generations * operations);
    }
    for (uint64_t i = 0; i < threads * slots; i++) {
        slot_empty(&chains[i / slots], &chains[i / slots].slots[i % slots]);
    }
    return bench_report();
}
