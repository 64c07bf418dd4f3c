/* SPDX-License-Identifier: MIT */
/*
 * Thread storms: many short threads. Each allocates a little, frees half of it and leaves
 * the other half to the collecting thread. Thread-per-request servers, parallel build steps, test
 * runners. What an allocator spends on a thread's first and last allocation shows here, and so does
 * the memory that it strands when threads end.
 *
 * Timed, wall clock: `waves` waves of `threads` threads at a time, created, joined, and their
 * leftovers freed by the main thread. Creating a thread is part of it, at the same price for all.
 * An operation is one thread. Each block is marked when made and checked when freed.
 */
#include "lib/workload.h"

#include <pthread.h>

enum { THREAD_LIMIT = 1024, BLOCK_LIMIT = 4096 };
enum { STACK_BYTES = 256 << 10 };

static uint64_t threads = 16;
static uint64_t blocks = 100;
static uint64_t min_bytes = 16;
static uint64_t max_bytes = 1024;
static uint64_t waves = 40;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"threads", &threads, 1, THREAD_LIMIT, "threads alive at a time"},
    {"blocks", &blocks, 1, BLOCK_LIMIT, "blocks per thread; every second one is left over"},
    {"min", &min_bytes, 16, 1 << 20, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 20, "largest block, bytes"},
    {"waves", &waves, 1, 1000000, "waves per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

/* Written by its thread, read by main after the join. */
struct worker {
    pthread_t thread;
    uint64_t seed;
    void *blocks[BLOCK_LIMIT];
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static struct worker *workers;
static pthread_attr_t attributes;

static size_t block_bytes(const struct worker *worker, uint64_t index) {
    return sizes[(worker->seed + index) % BENCH_SIZE_COUNT];
}

static void release(struct worker *worker, uint64_t first) {
    for (uint64_t i = first; i < blocks; i += 2) {
        bench_check(worker->blocks[i], block_bytes(worker, i), worker->seed + i);
        free(worker->blocks[i]);
    }
}

static void *live_briefly(void *argument) {
    struct worker *worker = argument;
    for (uint64_t i = 0; i < blocks; i++) {
        worker->blocks[i] = bench_malloc(block_bytes(worker, i));
        bench_mark(worker->blocks[i], block_bytes(worker, i), worker->seed + i);
    }
    release(worker, 0);
    return NULL;
}

static void run_wave(uint64_t number) {
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].seed = (number * threads + i) * 7919;
        int error = pthread_create(&workers[i].thread, &attributes, live_briefly, &workers[i]);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
    }
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        release(&workers[i], 1);
    }
}

int main(int argc, char **argv) {
    bench_parse("storm", "Waves of short threads that do not free all blocks.", options, argc,
                argv);
    if (max_bytes < min_bytes) {
        fprintf(stderr, "--max: less than --min\n");
        return BENCH_EXIT_USAGE;
    }
    bench_fill_sizes(sizes, min_bytes, max_bytes, false);
    workers = bench_table(threads * sizeof(*workers));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        for (uint64_t j = 0; j < waves; j++) {
            run_wave(i * waves + j);
        }
        bench_round_end(waves * threads);
    }
    return bench_report();
}
