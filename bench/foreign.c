/* SPDX-License-Identifier: MIT */
/*
 * Random frees of another thread's blocks: a thread builds a table of small blocks, which this one
 * frees in no order. Results that a worker produces and a collector drops, a cache that is torn
 * down by whichever thread runs: no two frees in sequence belong to the same few slabs.
 *
 * Timed: the frees, each after its block's mark was checked. Not timed: the thread that allocates,
 * which lives until the round has ended, and the shuffling of the table. An operation is one free.
 */
#include "lib/workload.h"

#include <pthread.h>

static uint64_t blocks = 1000000;
static uint64_t block_bytes = 100;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"blocks", &blocks, 1, 100000000, "blocks, all alive at once"},
    {"size", &block_bytes, 8, 1 << 16, "bytes per block"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

static void **table;
static pthread_barrier_t barrier;

static void *make_blocks(void *unused) {
    for (uint64_t i = 0; i < blocks; i++) {
        table[i] = bench_malloc(block_bytes);
        *(uint64_t *)table[i] = ~i;
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

/* Returns the sum of the marks, which is the same in any order. */
__attribute__((noinline)) static uint64_t free_blocks(void) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        sum += ~*(uint64_t *)table[i];
        free(table[i]);
    }
    return sum;
}

static void shuffle(uint64_t *state) {
    for (uint64_t i = blocks - 1; i != 0; i--) {
        uint64_t other = bench_random_below(state, i + 1);
        void *block = table[i];
        table[i] = table[other];
        table[other] = block;
    }
}

int main(int argc, char **argv) {
    bench_parse("foreign", "Frees blocks of another thread's in random order.", options, argc,
                argv);
    table = bench_table(blocks * sizeof(*table));
    uint64_t state = 0x13198a2e03707344u;
    pthread_barrier_init(&barrier, NULL, 2);
    for (uint64_t i = 0; i < rounds; i++) {
        pthread_t maker;
        if (pthread_create(&maker, NULL, make_blocks, NULL) != 0) {
            bench_fail("cannot start a thread");
        }
        pthread_barrier_wait(&barrier);
        shuffle(&state);
        bench_round_begin();
        uint64_t sum = free_blocks();
        bench_round_end(blocks);
        if (sum != blocks * (blocks - 1) / 2) {
            bench_fail("the marks of the blocks are wrong");
        }
        pthread_barrier_wait(&barrier);
        pthread_join(maker, NULL);
    }
    return bench_report();
}
