/* SPDX-License-Identifier: MIT */
/*
 * The sequence count of the profile's table: a reader in another process takes no lock, and what it
 * accepts is one state of the table, although threads add and remove samples meanwhile. The reader
 * is that of poolshim_cli/live/samples.py: its loads are system calls, which are in order.
 * Sources and planted faults: sequence.model.
 */
#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/profile/table.h"

#include <explore.h>

#define TABLE_BYTES 65536
#define BLOCK_BYTES 48

static struct ps_sites sites = {1, {0x1000}};
static char blocks[EXPLORE_THREADS + 1];
static struct ps_profile_stack *stack; /* the only one */

/* The copy of a reader. */
struct copy {
    uint64_t sequence;
    uint64_t sample_count; /* of the counts */
    uint64_t live_bytes;
    struct ps_profile_sums sums; /* of the stack, in the table */
};

uint64_t ps_draw_weighted(uint64_t weight, size_t bytes) {
    return weight / PS_DRAW_WEIGHT_ONE * bytes;
}

static void add_sample(void) {
    const struct ps_sample sample = {.block = (uintptr_t)&blocks[explore_thread()],
                                     .bytes = BLOCK_BYTES,
                                     .requested_bytes = BLOCK_BYTES,
                                     .weight = PS_DRAW_WEIGHT_ONE};
    EXPLORE_ASSERT(ps_table_add(&sample, &sites));
}

static void remove_sample(void) {
    EXPLORE_ASSERT(ps_table_remove(&blocks[explore_thread()]) == BLOCK_BYTES);
}

static void add_and_remove(void) {
    add_sample();
    remove_sample();
}

/* With one sample, so that the stack is there. */
static void set_up(void) {
    EXPLORE_ASSERT(ps_table_start(TABLE_BYTES));
    add_sample();
    stack = (struct ps_profile_stack *)ps_profile_next(NULL);
}

static uint64_t sequence_now(void) { return ps_load_relaxed(&ps_table_memory.x_sequence); }

static void copy_data(struct copy *out) {
    explore_fence_loads();
    out->sample_count = ps_load_relaxed(&ps_profile_x_counts.sample_count);
    out->live_bytes = ps_load_relaxed(&ps_profile_x_counts.live_bytes);
    out->sums.made_weight = ps_load_relaxed(&stack->x_sums.made_weight);
    out->sums.live_weight = ps_load_relaxed(&stack->x_sums.live_weight);
    out->sums.live_bytes = ps_load_relaxed(&stack->x_sums.live_bytes);
}

/* One attempt. Returns whether it is accepted. */
static bool attempt(struct copy *out) {
    out->sequence = sequence_now();
    if (out->sequence % 2 == 1) {
        return false;
    }
    copy_data(out);
    explore_fence_loads();
    return sequence_now() == out->sequence;
}

static void check_copy(const struct copy *copy) {
    uint64_t live = copy->sums.live_weight / PS_DRAW_WEIGHT_ONE;
    EXPLORE_ASSERT(copy->sums.made_weight == copy->sample_count * PS_DRAW_WEIGHT_ONE);
    EXPLORE_ASSERT(copy->sums.live_bytes == live * BLOCK_BYTES);
    EXPLORE_ASSERT(copy->live_bytes == copy->sums.live_bytes);
    EXPLORE_ASSERT(copy->sequence == 2 * (2 * copy->sample_count - live));
}

static void read_table(void) {
    struct copy copy;
    if (attempt(&copy)) {
        check_copy(&copy);
    }
}

static void all_settled(void) {
    struct copy copy;
    EXPLORE_ASSERT(attempt(&copy));
    check_copy(&copy);
    explore_outcome((unsigned)copy.sequence);
}

const struct explore_scenario explore_scenarios[] = {
    {"added", set_up, {add_sample, read_table}, all_settled, false},
    {"removed", set_up, {add_and_remove, read_table}, all_settled, false},
    {"two_writers", set_up, {add_sample, add_sample, read_table}, all_settled, false},
    {"two_readers", set_up, {add_and_remove, read_table, read_table}, all_settled, true},
    {NULL, NULL, {NULL}, NULL, false},
};
