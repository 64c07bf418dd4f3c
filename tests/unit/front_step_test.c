// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's work in fronts, windows, streaks and the store
 * (fork_step.h): the child must get each block once, none that is live, and lose few. Sequences are
 * aborted by each step, so threads have fronts of their own here, or locked ones.
 */
#include "pools/engine/front/store.h"
#include "pools/engine/front/window.h"
#include "pools/engine/heap/front_path.h"
#include "tests/unit/engine.h"
#include "tests/unit/fork_step_check.h"
#include "tests/unit/worker.h"

ENGINE_LONG_CLASSES

#define SHORT_BYTES 200
#define LONG_BYTES 3000
#define LONGEST_BYTES 20000 /* of slabs of several granules */
#define MOST 1000
#define FILLED_BYTES 16 /* of each block: that it was had twice shows there */

/* The batch that is being moved, a window, a streak, and the pages that are being purged. */
static uint64_t lost_blocks_max = 2 * PS_STORE_BATCH;

static struct live_block live[MOST]; /* of any thread; the child knows them */

static void allocate(size_t first, size_t end, size_t bytes) {
    for (size_t i = first; i < end; i++) {
        struct live_block made = {ps_heap_alloc(bytes), FILLED_BYTES, i};
        live_fill(&made);
        live[i].bytes = FILLED_BYTES;
        live[i].seed = i;
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees it */
        live[i].address = made.address;
    }
}

static void free_one(size_t i) {
    void *block = live[i].address;
    live[i].address = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees the rest */
    ps_heap_free(block);
}

/* In an order in which no three are neighbours. */
static void free_mixed(size_t first, size_t end) {
    for (size_t i = 0; i < end - first; i++) {
        free_one(first + i * 7 % (end - first));
    }
}

static void free_in_order(size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        free_one(i);
    }
}

/* More blocks than the slabs that the parent may have. */
static void use_class(size_t bytes, size_t count) {
    static struct live_block taken[4 * MOST];
    for (size_t i = 0; i < count; i++) {
        live_start(&taken[i], ps_heap_alloc(bytes), FILLED_BYTES, MOST + i);
        REQUIRE(taken[i].address != NULL);
    }
    for (size_t i = 0; i < MOST; i++) {
        CHECK(live[i].address == NULL || live_is_intact(&live[i], live[i].bytes));
    }
    live_end_all(taken, count); /* checks that each was had once */
}

static void use_all_blocks(void) {
    check_page_cache();
    use_class(SHORT_BYTES, 1500);
    use_class(LONG_BYTES, 200);
    use_class(LONGEST_BYTES, 40);
    live_end_all(live, MOST);
    ps_maintenance_trim(0);
    check_page_cache();
    struct ps_census census = engine_census();
    CHECK_CMP(census_live_blocks(&census), <=, lost_blocks_max);
    for (uint32_t i = 0; i < census.class_count; i++) {
        CHECK_EQ(ps_front_blocks(i), 0);
        CHECK(census.classes[i].slabs == 0 || census.classes[i].live_blocks != 0);
    }
}

/* ---- a thread beside others ---- */

static void refill_and_return(void) {
    allocate(0, 30, LONG_BYTES);
    free_mixed(0, 30);
    allocate(0, 10, LONG_BYTES);
    free_mixed(0, 10);
    ps_maintenance_flush();
}

FRESH_TEST(a_thread_takes_blocks_and_returns_them) {
    busy_granules_max = 32;
    ps_engine_start();
    fork_at_each_step(NULL, refill_and_return, use_all_blocks, 131);
}

static void refill_long_slabs(void) {
    allocate(0, 8, LONGEST_BYTES);
    free_mixed(0, 8);
    ps_maintenance_flush();
    ps_store_drop_drained(true);
}

FRESH_TEST(slabs_of_several_granules_come_and_go) {
    busy_granules_max = 32;
    ps_engine_start();
    fork_at_each_step(NULL, refill_long_slabs, use_all_blocks, 61);
}

static void free_a_streak(void) {
    allocate(0, 400, SHORT_BYTES);
    free_in_order(0, 390);
    ps_front_close_streak();
    free_one(390);
    ps_maintenance_flush();
}

FRESH_TEST(a_streak_grows_and_returns) {
    busy_granules_max = 32;
    lost_blocks_max += 400;
    ps_engine_start();
    fork_at_each_step(NULL, free_a_streak, use_all_blocks, 251);
}

/* Of the main thread's front, which the operation empties. */
static void fill_a_front(void) {
    allocate(0, 200, SHORT_BYTES);
    free_mixed(0, 200);
    allocate(200, 230, LONG_BYTES);
    free_mixed(200, 230);
    allocate(0, 20, SHORT_BYTES); /* used again: the others are the oldest */
    ps_front_share_own();
    CHECK_CMP(ps_front_blocks(ps_size_class_of(SHORT_BYTES)), >, 4);
}

static void return_what_is_idle(void) {
    ps_front_return_idle(false, false);
    ps_front_return_idle(false, false);
    ps_front_return_idle(true, false);
    ps_store_drop_drained(true);
}

FRESH_TEST(fronts_of_others_are_emptied) {
    busy_granules_max = 32;
    lost_blocks_max += PS_FRONT_BLOCKS;
    ps_engine_start();
    fork_at_each_step(fill_a_front, return_what_is_idle, use_all_blocks, 127);
}

static void leave_holes(void) {
    allocate(0, MOST, SHORT_BYTES);
    for (size_t i = 0; i < MOST; i++) {
        if (i % 100 != 0) {
            free_one(i);
        }
    }
    ps_maintenance_flush();
}

static void purge_holes(void) { CHECK_CMP(ps_store_purge_all(), >, 0); }

FRESH_TEST(holes_are_purged) {
    busy_granules_max = 32;
    lost_blocks_max += PS_GRANULE_BYTES / SHORT_BYTES;
    ps_engine_start();
    fork_at_each_step(leave_holes, purge_holes, use_all_blocks, 83);
}

static void use_purged_pages(void) {
    allocate(1, 100, SHORT_BYTES);
    free_mixed(1, 100);
    ps_maintenance_flush();
}

static void purge_in_advance(void) {
    leave_holes();
    purge_holes();
}

FRESH_TEST(purged_pages_are_used_again) {
    busy_granules_max = 32;
    ps_engine_start();
    fork_at_each_step(purge_in_advance, use_purged_pages, use_all_blocks, 151);
}

static void end_and_go_on(void) {
    allocate(0, 10, LONG_BYTES);
    allocate(10, 20, SHORT_BYTES);
    free_mixed(10, 20);
    ps_front_thread_ended();
    free_mixed(0, 10); /* uses fronts, and gets no window again */
    allocate(0, 20, SHORT_BYTES);
    CHECK_PTR_EQ(ps_front_thread.windows, &ps_windows_none);
}

FRESH_TEST(a_thread_ends_and_allocates_still) {
    busy_granules_max = 32;
    ps_engine_start();
    fork_at_each_step(NULL, end_and_go_on, use_all_blocks, 103);
}

/* ---- the first thread, with a front of its own ---- */

static void start_here(void) {
    is_prelude = true;
    ps_engine_start();
    ps_heap_free(ps_heap_alloc(1));
    CHECK_PTR_EQ(ps_front_thread.own, ps_front_table.x_own);
    is_prelude = false;
}

static void return_own_blocks(void) {
    start_here();
    allocate(0, 60, SHORT_BYTES);
    free_mixed(0, 60);
    ps_front_scan(false);
    allocate(0, 5, SHORT_BYTES);
    free_mixed(0, 5);
    ps_front_scan(false);
    refill_and_return();
}

FRESH_TEST(the_first_thread_uses_its_own_front) {
    busy_granules_max = 32;
    lost_blocks_max += PS_FRONT_BLOCKS + PS_GRANULE_BYTES / 8; /* a window of the first class */
    fork_at_each_step(NULL, return_own_blocks, use_all_blocks, 149);
}

static void return_idle_own_blocks(void) {
    start_here();
    is_prelude = true;
    for (int round = 0; round < 3; round++) { /* many are taken: the front may have them */
        allocate(0, 60, SHORT_BYTES);
        free_mixed(0, 60);
    }
    ps_front_scan(false);
    allocate(0, 12, SHORT_BYTES);
    free_mixed(0, 12);
    is_prelude = false;
    ps_front_scan(false); /* the newest entries move down */
    CHECK_EQ(ps_front_blocks(ps_size_class_of(SHORT_BYTES)), 12);
}

FRESH_TEST(the_first_thread_returns_the_oldest_blocks) {
    busy_granules_max = 32;
    lost_blocks_max += PS_FRONT_BLOCKS;
    fork_at_each_step(NULL, return_idle_own_blocks, use_all_blocks, 5);
}

static void share_own_front(void) {
    start_here();
    allocate(0, 40, LONG_BYTES);
    free_mixed(0, 40);
    ps_front_share_own();
    CHECK_PTR_EQ(ps_front_thread.own, NULL);
    allocate(0, 10, LONG_BYTES);
    free_mixed(0, 10);
}

FRESH_TEST(the_first_thread_shares_its_front) {
    busy_granules_max = 32;
    lost_blocks_max += PS_FRONT_BLOCKS;
    fork_at_each_step(NULL, share_own_front, use_all_blocks, 139);
}

UNIT_MAIN
