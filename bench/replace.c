/* SPDX-License-Identifier: MIT */
/*
 * Random replacement: a table of blocks of mixed sizes, in which a random one is freed and a new
 * one of a random size takes its place. It models a cache or an index in its steady state, and is
 * a measure of an allocator's search and its fragmentation, since no two neighbours die together.
 *
 * Timed: the replacements, with the first word and the last byte of each block (and a byte in each
 * page between) written when it is made and checked when it is freed. Not timed: filling the table
 * and one pass of replacements before the first round; the sizes come from a small table.
 */
#include "lib/workload.h"

static uint64_t slots = 100000;
static uint64_t min_bytes = 16;
static uint64_t max_bytes = 1024;
static uint64_t is_log_uniform = 0;
static uint64_t operations = 2000000;
static uint64_t rounds = 7;

static const struct bench_option options[] = {
    {"slots", &slots, 1, 100000000, "blocks alive"},
    {"min", &min_bytes, 16, 1 << 24, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 24, "largest block, bytes"},
    {"log", &is_log_uniform, 0, 1, "1: sizes log-uniform, 0: uniform"},
    {"operations", &operations, 1, 10000000000, "replacements per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

struct slot {
    void *block;
    uint64_t bytes;
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static struct slot *table;
static uint64_t live_bytes; /* requested, summed over the table */

static void slot_fill(struct slot *slot, uint64_t draw) {
    slot->bytes = sizes[draw % BENCH_SIZE_COUNT];
    slot->block = bench_malloc(slot->bytes);
    bench_mark(slot->block, slot->bytes, (uint64_t)(slot - table));
    live_bytes += slot->bytes;
}

static void slot_empty(struct slot *slot) {
    bench_check(slot->block, slot->bytes, (uint64_t)(slot - table));
    free(slot->block);
    live_bytes -= slot->bytes;
}

__attribute__((noinline)) static void replace_random(uint64_t count, uint64_t *state) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t draw = bench_random(state);
        struct slot *slot = &table[(draw >> 32) * slots >> 32];
        slot_empty(slot);
        slot_fill(slot, draw);
    }
}

int main(int argc, char **argv) {
    bench_parse("replace", "Replaces random blocks of a table by new ones of random sizes.",
                options, argc, argv);
    if (max_bytes < min_bytes) {
        fprintf(stderr, "--max: less than --min\n");
        return BENCH_EXIT_USAGE;
    }
    bench_fill_sizes(sizes, min_bytes, max_bytes, is_log_uniform);
    table = bench_table(slots * sizeof(*table));
    uint64_t state = 0x243f6a8885a308d3u;
    for (uint64_t i = 0; i < slots; i++) {
        slot_fill(&table[i], bench_random(&state));
    }
    replace_random(slots < operations ? slots : operations, &state);
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        replace_random(operations, &state);
        bench_round_end(operations);
    }
    bench_note("live_kib", (double)live_bytes / 1024);
    for (uint64_t i = 0; i < slots; i++) {
        slot_empty(&table[i]);
    }
    return bench_report();
}
