// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Heaps of threads that do not run, at the levels of POOLSHIM_HARDEN: their memory serves others,
 * quarantined blocks included, and the threads are served as before when they run again.
 */
#include "tests/unit/sleeper.h"

#include "pools/engine/harden/hard.h"
#include "pools/engine/heap/mode.h"

#include <sys/mman.h>

static void start(uint32_t level) {
    engine_config.harden = level;
    ps_engine_start();
}

static void free_every_third(void *which) {
    struct live_block *mine = which;
    for (size_t i = 0; i < BLOCKS; i += 3) {
        live_end(&mine[i]);
    }
}

/* Not check_live_blocks: the pool of guarded samples is not counted as mapped. */
static void check_all_is_back(void) {
    ps_heap_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), 0);
}

static void check_sleeper(uint32_t level) {
    start(level);
    start_sleeper();
    worker_do(&sleeper, free_every_third, blocks);
    be_active(IDLE_MS);
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    CHECK_EQ(engine_census().heap_live_count, 1);
    CHECK_CMP(engine_census().orphan_span_count, >, 0);
    WHEN("others use what it had");
    allocate_all(others);
    ps_hard_sweep();
    WHEN("it wakes up");
    worker_do(&sleeper, free_all, blocks);
    CHECK(heap_of_sleeper() != NULL);
    free_all(others);
    ps_hard_sweep();
    worker_stop(&sleeper);
    check_all_is_back();
}

FRESH_TEST(memory_of_a_thread_that_sleeps_serves_another_at_level_1) { check_sleeper(1); }
FRESH_TEST(memory_of_a_thread_that_sleeps_serves_another_at_level_2) { check_sleeper(2); }
FRESH_TEST(memory_of_a_thread_that_sleeps_serves_another_at_level_3) { check_sleeper(3); }

/* Frees in order: at level 1 in a streak, which is open when the heap is asked for, or taken. */
static void check_streak(uint32_t level) {
    start(level);
    for (uint64_t steps = 0; steps < 4; steps++) {
        start_sleeper_in_streak();
        fake_os_advance_ms(IDLE_MS);
        be_active(steps * STEP_MS);
        worker_do(&sleeper, free_next, blocks);
        be_active(2 * STEP_MS);
        wake_and_stop();
        ps_hard_sweep();
        check_all_is_back();
    }
}

FRESH_TEST(frees_in_order_go_on_without_the_heap_at_level_1) { check_streak(1); }
FRESH_TEST(frees_in_order_go_on_without_the_heap_at_level_2) { check_streak(2); }

static void (*free_block)(struct ps_span *span, void *block, uintptr_t owner_key);
static int frees;

static void free_inside(struct ps_span *span, void *block, uintptr_t owner_key) {
    CHECK(ps_thread_is_inside());
    frees++;
    free_block(span, block, owner_key);
}

/* The mode is protected once the engine has started. */
static void open_mode(void) {
    uintptr_t page = (uintptr_t)&ps_mode & ~(uintptr_t)(ps_os_page_bytes() - 1);
    REQUIRE(mprotect((void *)page, sizeof ps_mode + (uintptr_t)&ps_mode - page,
                     PROT_READ | PROT_WRITE) == 0);
}

/* Otherwise the heap could be taken in the middle of one. */
FRESH_TEST(each_free_that_is_late_is_made_within_a_call) {
    start(1);
    start_sleeper_in_streak();
    be_active(IDLE_MS);
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    worker_do(&sleeper, store_late, blocks);
    open_mode();
    free_block = ps_mode.entry.free_block;
    ps_mode.entry.free_block = free_inside;
    worker_do(&sleeper, acquire_heap, NULL);
    CHECK_CMP(frees, >, 1);
    ps_mode.entry.free_block = free_block;
    wake_and_stop();
    check_all_is_back();
}

/* The block on the way into an asked heap lies in the span of the streak that is open there. */
static void free_last(void *which) {
    struct live_block *mine = which;
    live_end(&mine[BLOCKS - 1]);
}

FRESH_TEST(a_free_beside_an_open_streak_ends_it_though_the_heap_was_asked_for) {
    start(1);
    start_sleeper_in_streak();
    struct ps_heap *heap = heap_of_sleeper();
    REQUIRE(heap->streak_span != NULL);
    struct ps_span *span = heap->streak_span;
    fake_os_advance_ms(IDLE_MS);
    be_active(STEP_MS); /* asked */
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    size_t beside = BLOCKS / 2 + 2;
    REQUIRE(ps_span_at(blocks[beside].address) == span);
    struct live_block moved = blocks[beside];
    blocks[beside] = blocks[BLOCKS - 1];
    blocks[BLOCKS - 1] = moved;
    worker_do(&sleeper, free_last, blocks);
    CHECK_PTR_EQ(heap_of_sleeper(), heap);
    CHECK(heap->streak_span != span);
    wake_and_stop();
    check_all_is_back();
}

UNIT_MAIN
