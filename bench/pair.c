/* SPDX-License-Identifier: MIT */
/*
 * Pairs of malloc and free in cache: the shortest life that a block can have. A function that needs
 * a buffer, a string that is built and dropped (--depth 1); a call tree that frees in reverse
 * (--depth 100).
 *
 * Timed: allocating `depth` blocks, a word written into each, and freeing them last in, first out,
 * reading the word back. Not timed: the table of sizes, drawn from --min to --max in steps of 16.
 * An operation is one malloc with its free.
 */
#include "lib/workload.h"

enum { DEPTH_LIMIT = 1000 };

static uint64_t min_bytes = 16;
static uint64_t max_bytes = 512;
static uint64_t depth = 1;
static uint64_t operations = 5000000;
static uint64_t rounds = 7;

static const struct bench_option options[] = {
    {"min", &min_bytes, 16, 1 << 20, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 20, "largest block, bytes"},
    {"depth", &depth, 1, DEPTH_LIMIT, "blocks alive at once, freed in reverse"},
    {"operations", &operations, 1, 10000000000, "pairs per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static void *blocks[DEPTH_LIMIT];

/* Multiples of 16, the largest one at most max_bytes. */
static void fill_sizes(void) {
    uint64_t state = 1;
    uint64_t steps = (max_bytes - min_bytes) / 16 + 1;
    for (size_t i = 0; i < BENCH_SIZE_COUNT; i++) {
        sizes[i] = (uint32_t)(min_bytes + 16 * bench_random_below(&state, steps));
    }
}

/* Returns the sum of the words that were read back. */
__attribute__((noinline)) static uint64_t run_pairs(uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t done = 0; done < count; done += depth) {
        for (uint64_t i = 0; i < depth; i++) {
            blocks[i] = bench_malloc(sizes[(done + i) % BENCH_SIZE_COUNT]);
            *(uint64_t *)blocks[i] = done + i;
        }
        for (uint64_t i = depth; i-- != 0;) {
            sum += *(uint64_t *)blocks[i];
            free(blocks[i]);
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    bench_parse("pair", "Allocates and frees blocks in cache, last in, first out.", options, argc,
                argv);
    if (max_bytes < min_bytes) {
        fprintf(stderr, "--max: less than --min\n");
        return BENCH_EXIT_USAGE;
    }
    fill_sizes();
    uint64_t count = (operations + depth - 1) / depth * depth;
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        uint64_t sum = run_pairs(count);
        bench_round_end(count);
        uint64_t expected = count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
        if (sum != expected) {
            bench_fail("round %llu: a block was overwritten", (unsigned long long)i + 1);
        }
    }
    return bench_report();
}
