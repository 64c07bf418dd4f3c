/* SPDX-License-Identifier: MIT */
/*
 * Large blocks: images, tensors, columns of a table, the buffer that doubles. A few slots have
 * blocks of 100 KB to 20 MB; a random one is replaced, or grows by half with realloc.
 *
 * Timed: the replacements and growths. A new block is touched once per page, and so is what realloc
 * added; the first word and the last byte are checked after each realloc and at each free. Not
 * timed: filling the slots. An operation is one replacement or growth.
 */
#include "lib/workload.h"

static uint64_t slots = 8;
static uint64_t min_bytes = 100000;
static uint64_t max_bytes = 20000000;
static uint64_t growths = 50;
static uint64_t operations = 200;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"slots", &slots, 1, 10000, "blocks alive"},
    {"min", &min_bytes, 16, 1 << 30, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 30, "largest block, bytes; sizes are log-uniform"},
    {"growths", &growths, 0, 100, "of 100 operations, how many are growths by realloc"},
    {"operations", &operations, 1, 1000000000, "replacements and growths per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

struct slot {
    void *block;
    uint64_t bytes;
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static struct slot *table;
static uint64_t random_state = 0x243f6a8885a308d3u;

static void slot_fill(struct slot *slot) {
    slot->bytes = sizes[bench_random(&random_state) % BENCH_SIZE_COUNT];
    slot->block = bench_malloc(slot->bytes);
    bench_mark(slot->block, slot->bytes, slot->bytes);
}

static void slot_empty(struct slot *slot) {
    bench_check(slot->block, slot->bytes, slot->bytes);
    free(slot->block);
}

/* The old contents must have moved along; only the added part is touched for the first time. */
static void slot_grow(struct slot *slot) {
    uint64_t bytes = slot->bytes + slot->bytes / 2;
    char *block = realloc(slot->block, bytes);
    if (block == NULL) {
        bench_fail("realloc to %llu bytes failed", (unsigned long long)bytes);
    }
    bench_check(block, slot->bytes, slot->bytes);
    for (uint64_t at = slot->bytes; at < bytes; at += BENCH_PAGE_BYTES) {
        block[at] = 1;
    }
    memcpy(block, &bytes, sizeof(bytes));
    block[bytes - 1] = (char)(bytes >> 56);
    *slot = (struct slot){block, bytes};
}

__attribute__((noinline)) static void run_operations(void) {
    for (uint64_t i = 0; i < operations; i++) {
        struct slot *slot = &table[bench_random_below(&random_state, slots)];
        bool is_growth = bench_random_below(&random_state, 100) < growths;
        if (is_growth && slot->bytes + slot->bytes / 2 <= max_bytes) {
            slot_grow(slot);
        } else {
            slot_empty(slot);
            slot_fill(slot);
        }
    }
}

int main(int argc, char **argv) {
    bench_parse("churn", "Replaces large blocks and grows them with realloc.", options, argc, argv);
    if (max_bytes < min_bytes) {
        fprintf(stderr, "--max: less than --min\n");
        return BENCH_EXIT_USAGE;
    }
    bench_fill_sizes(sizes, min_bytes, max_bytes, true);
    table = bench_table(slots * sizeof(*table));
    for (uint64_t i = 0; i < slots; i++) {
        slot_fill(&table[i]);
    }
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        run_operations();
        bench_round_end(operations);
    }
    for (uint64_t i = 0; i < slots; i++) {
        slot_empty(&table[i]);
    }
    return bench_report();
}
