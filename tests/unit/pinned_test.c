// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Free memory is charged to the stacks of the live blocks that pin it.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/profile/pinned.h"
#include "tests/unit/engine.h"

#define INTERVAL ((size_t)16 * KIB)
#define BLOCKS 60000
#define PER_SURVIVOR 40
#define BYTES 380 /* of a class of 384 */

enum { SHORT_LIVED = 1, SURVIVOR = 2, OTHER = 3 };

static uintptr_t site;
static void *blocks[BLOCKS];
static struct ps_pinned_entry entries[4096];
static struct ps_pinned pinned = {.entries = entries, .mask = 4095};

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)limit;
    (void)instruction;
    sites[0] = site;
    return 1;
}

static void start(void) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = INTERVAL;
    engine_config.profile_seed = 1;
    ps_engine_start();
}

static void *take(size_t bytes, uintptr_t at) {
    site = at;
    void *block = ps_heap_alloc(bytes);
    REQUIRE(block != NULL);
    return block;
}

static uint64_t pinned_by(uintptr_t at) {
    uint64_t bytes = 0;
    for (const struct ps_profile_stack *stack = ps_profile_next(NULL); stack != NULL;
         stack = ps_profile_next(stack)) {
        if (stack->count == 1 && stack->sites[0] == at) {
            bytes += ps_pinned_of(&pinned, stack);
        }
    }
    return bytes;
}

/* Bytes in slabs of the class that are free, as the census has it. */
static uint64_t free_in_class(void) {
    static struct ps_census census;
    ps_census_take(&census);
    const struct ps_census_class *class = &census.classes[ps_size_class_of(BYTES)];
    return class->slab_bytes - class->live_blocks * class->block_bytes;
}

/* Survivors among short-lived blocks; some of these survive, too, if `is_half`. */
static void live_on(bool is_half) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = take(BYTES, i % PER_SURVIVOR == 0 ? SURVIVOR : SHORT_LIVED);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % PER_SURVIVOR != 0 && (!is_half || i >= BLOCKS / 2)) {
            ps_heap_free(blocks[i]);
        }
    }
}

FRESH_TEST(survivors_pin_what_lies_between_them) {
    start();
    (void)take(700, OTHER);
    live_on(false);
    ps_pinned_count(&pinned);
    uint64_t all = free_in_class();
    CHECK_CMP(all, >, (uint64_t)BLOCKS * BYTES * 8 / 10);
    CHECK_EQ(pinned_by(SHORT_LIVED), 0);
    CHECK_CMP(pinned_by(SURVIVOR), >, all * 9 / 10);
    CHECK_CMP(pinned_by(SURVIVOR), <=, all);
}

FRESH_TEST(blocks_of_full_spans_pin_nothing) {
    start();
    live_on(true); /* in the first half all is live: its blocks of both sites pin nothing */
    ps_pinned_count(&pinned);
    uint64_t all = free_in_class();
    CHECK_CMP(pinned_by(SHORT_LIVED), <, all / 20);
    CHECK_CMP(pinned_by(SURVIVOR), >, all * 8 / 10);
}

FRESH_TEST(nothing_is_pinned_where_all_is_live) {
    start();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = take(BYTES, SURVIVOR);
    }
    ps_pinned_count(&pinned);
    CHECK_CMP(pinned_by(SURVIVOR), <, 64 * KIB);
}

FRESH_TEST(large_blocks_pin_nothing) {
    start();
    (void)take(5 * MIB, OTHER);
    (void)take(100 * KIB, OTHER);
    ps_pinned_count(&pinned);
    CHECK_EQ(pinned_by(OTHER), 0);
}

FRESH_TEST(a_table_that_is_too_small_loses_entries_and_nothing_else) {
    start();
    pinned.mask = 0;
    live_on(false);
    ps_pinned_count(&pinned);
    CHECK_CMP(pinned_by(SURVIVOR) + pinned_by(SHORT_LIVED), <=, free_in_class());
}

UNIT_MAIN
