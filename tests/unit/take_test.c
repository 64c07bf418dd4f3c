// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Heaps of threads that do not run: others take them, and the threads get them back, or another. */
#include "tests/unit/sleeper.h"

#include "pools/engine/heap/registry.h"
#include "pools/engine/page/retention.h"

#include <sys/mman.h>

ENGINE_HEAPS

static void free_odd(void *which) {
    struct live_block *mine = which;
    for (size_t i = 1; i < BLOCKS; i += 2) {
        live_end(&mine[i]);
    }
}

static void allocate_one(void *live) {
    live_start(live, ps_heap_alloc(BLOCK_BYTES), BLOCK_BYTES, 7);
}

FRESH_TEST(memory_of_a_thread_that_sleeps_serves_another) {
    start_sleeper();
    uint64_t span_bytes = engine_census().small_span_bytes;
    worker_do(&sleeper, free_odd, blocks);
    be_active(IDLE_MS);
    CHECK_EQ(engine_census().heap_live_count, 1);
    CHECK_CMP(engine_census().orphan_span_count, >, 0);
    allocate_all(others); /* as much as was freed, and as much again */
    CHECK_CMP(engine_census().small_span_bytes, <=, span_bytes * 2);
    WHEN("it wakes up");
    worker_do(&sleeper, free_all, blocks);
    free_all(others);
    CHECK_EQ(engine_census().heap_live_count, 2);
    worker_stop(&sleeper);
    ps_heap_trim(0);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(a_thread_that_was_asked_and_calls_keeps_its_heap) {
    start_sleeper();
    struct ps_heap *heap = heap_of_sleeper();
    REQUIRE(heap != NULL);
    fake_os_advance_ms(IDLE_MS);
    be_active(STEP_MS); /* one look: it is asked */
    CHECK(heap->is_asked);
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    worker_do(&sleeper, free_odd, blocks);
    CHECK_PTR_EQ(heap_of_sleeper(), heap);
    be_active(STEP_MS);
    CHECK_PTR_EQ(heap_of_sleeper(), heap);
    CHECK_EQ(engine_census().heap_live_count, 2);
    wake_and_stop();
    check_live_blocks(0);
}

FRESH_TEST(a_taken_heap_returns_to_its_thread_with_its_full_spans) {
    start_sleeper();
    struct ps_heap *heap = heap_of_sleeper();
    be_active(IDLE_MS);
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    CHECK_EQ(heap->x_state, PS_HEAP_PARKED);
    struct live_block one;
    worker_do(&sleeper, allocate_one, &one);
    CHECK_PTR_EQ(heap_of_sleeper(), heap);
    live_end(&one);
    wake_and_stop();
    check_live_blocks(0);
    CHECK_CMP(engine_census().heap_total_count, <=, 2);
}

FRESH_TEST(sleeping_and_waking_makes_no_more_heaps) {
    enum { ROUNDS = 50 };
    static struct live_block kept[ROUNDS];
    worker_start(&sleeper);
    for (size_t i = 0; i < ROUNDS; i++) {
        worker_do(&sleeper, allocate_one, &kept[i]);
        be_active(IDLE_MS);
        CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    }
    CHECK_CMP(engine_census().heap_total_count, <=, 2);
    CHECK_CMP(engine_census().small_span_bytes, <=, 2 * PS_GRANULE_BYTES);
    live_end_all(kept, ROUNDS);
    worker_stop(&sleeper);
    check_live_blocks(0);
}

FRESH_TEST(a_streak_that_is_open_is_stopped_and_booked) {
    start_sleeper_in_streak();
    struct ps_heap *heap = heap_of_sleeper();
    CHECK(heap->streak_span != NULL);
    be_active(IDLE_MS);
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    CHECK_PTR_EQ(heap->streak_span, NULL);
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_EQ(census_live_blocks(&census), BLOCKS / 2);
    wake_and_stop();
    check_live_blocks(0);
}

FRESH_TEST(a_streak_that_goes_on_when_it_is_asked_for_keeps_the_heap) {
    start_sleeper_in_streak();
    struct ps_heap *heap = heap_of_sleeper();
    REQUIRE(heap->streak_span != NULL);
    fake_os_advance_ms(IDLE_MS);
    be_active(STEP_MS);                     /* asked */
    worker_do(&sleeper, free_next, blocks); /* the words alone */
    CHECK(heap->is_asked);
    be_active(2 * STEP_MS); /* stopped, taken */
    wake_and_stop();
    check_live_blocks(0);
}

static struct worker active;
static int trims;

static void be_active_long(void *unused) {
    (void)unused;
    be_active(IDLE_MS);
}

/* In the middle of a trim: another thread searches for idle heaps. */
static void wait_in_trim(void) {
    struct ps_heap *heap = ps_thread.own;
    worker_do(&active, be_active_long, NULL);
    CHECK_PTR_EQ(ps_thread.own, heap);
    CHECK_EQ(heap->x_state, PS_HEAP_LIVE);
    CHECK(!heap->is_asked);
    trims++;
}

static void trim(void *unused) {
    (void)unused;
    ps_heap_trim(0);
}

FRESH_TEST(a_thread_that_trims_keeps_its_heap) {
    start_sleeper();
    worker_start(&active);
    (void)mprotect(&ps_mode, sizeof ps_mode, PROT_READ | PROT_WRITE); /* refused: it is writable */
    ps_mode.hook.reclaim = wait_in_trim;
    worker_do(&sleeper, trim, NULL);
    CHECK_EQ(trims, 1);
    WHEN("the trim is over");
    worker_do(&active, be_active_long, NULL);
    CHECK_PTR_EQ(heap_of_sleeper(), NULL);
    worker_stop(&active);
    wake_and_stop();
    check_live_blocks(0);
}

FRESH_TEST(frees_that_are_late_are_made_again) {
    start_sleeper_in_streak();
    struct ps_heap *heap = heap_of_sleeper();
    REQUIRE(heap->streak_span != NULL);
    be_active(IDLE_MS);
    CHECK_PTR_EQ(heap->streak_span, NULL);
    worker_do(&sleeper, store_late, blocks);
    wake_and_stop();
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(a_thread_may_end_without_its_heap) {
    for (int steps = 0; steps < 4; steps++) { /* not asked, asked, taken */
        start_sleeper_in_streak();
        fake_os_advance_ms(IDLE_MS);
        be_active((uint64_t)steps * STEP_MS);
        worker_stop(&sleeper);
        be_active(IDLE_MS);
        free_all(blocks);
        ps_heap_trim(0);
        check_live_blocks(0);
        CHECK_EQ(engine_census().small_span_bytes, 0);
    }
}

static void check_in_child(void *which) {
    struct live_block *mine = which;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        live_end_all(mine, BLOCKS);
        allocate_all(mine);
        live_end_all(mine, BLOCKS);
    }
    unit_join_child(child);
}

FRESH_TEST(a_thread_may_fork_without_its_heap) {
    for (int steps = 0; steps < 4; steps++) {
        start_sleeper_in_streak();
        fake_os_advance_ms(IDLE_MS);
        be_active((uint64_t)steps * STEP_MS);
        worker_do(&sleeper, check_in_child, blocks);
        wake_and_stop();
        check_live_blocks(0);
    }
}

static void walk_after(uint64_t ms) {
    fake_os_advance_ms(ms);
    ps_thread_enter();
    (void)ps_take_tick(ps_os_now_ms());
    ps_thread_leave();
}

FRESH_TEST(a_thread_that_got_its_asked_heap_back_counts_as_active) {
    ps_engine_start();
    acquire_heap(NULL); /* heaps are taken in a process that has two */
    start_sleeper();
    struct ps_heap *heap = heap_of_sleeper();
    walk_after(IDLE_MS);
    REQUIRE(heap->is_asked);
    worker_do(&sleeper, free_next, blocks);
    CHECK_PTR_EQ(heap_of_sleeper(), heap);
    walk_after(STEP_MS);
    CHECK(!heap->is_asked);
    walk_after(STEP_MS);
    CHECK(heap->is_asked);
    wake_and_stop();
    check_live_blocks(0);
}

/* How long a thread with so many blocks sleeps before its heap is asked for. */
static uint64_t sleep_ms(size_t count) {
    worker_start(&sleeper);
    for (size_t i = 0; i < count; i++) {
        worker_do(&sleeper, allocate_one, &blocks[i]);
    }
    struct ps_heap *heap = heap_of_sleeper();
    ps_store_relaxed(&heap->x_active_ms, ps_os_now_ms());
    uint64_t ms = 0;
    for (; !heap->is_asked; ms += STEP_MS) {
        REQUIRE(ms < IDLE_MS);
        walk_after(STEP_MS);
    }
    for (size_t i = 0; i < count; i++) {
        live_end(&blocks[i]);
    }
    worker_stop(&sleeper);
    return ms;
}

FRESH_TEST(a_heap_with_few_spans_is_left_to_its_thread_for_longer) {
    ps_engine_start();
    acquire_heap(NULL); /* heaps are taken in a process that has two */
    uint64_t few_ms = sleep_ms(1);
    CHECK_CMP(few_ms, >, 40);
    CHECK_CMP(sleep_ms(BLOCKS), <=, 2 * STEP_MS);
    WHEN("memory is short");
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    CHECK_EQ(sleep_ms(1), STEP_MS);
}

UNIT_MAIN
