// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Medium blocks as threads see them: which block malloc takes, how many bytes a thread caches, when
 * they return, and whether they survive a fork in the child.
 */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/page/medium_regions.h"

#define BLOCKS 400

static struct live_block blocks[BLOCKS];

static const size_t sizes[] = {8193, 12 * KIB, 20000, 40000, 65536, 65537, 100000, 131072};
#define SIZES (sizeof sizes / sizeof sizes[0])

static uint64_t waiting_bytes(void) { return engine_census().run_cached_bytes; }

static void fill(size_t count, size_t bytes) { live_start_all(blocks, count, bytes); }

static bool is_medium(const void *block) {
    return ps_page_map_slot(block)->run.kind == PS_RUN_MEDIUM;
}

/* ---- order, number and time ---- */

FRESH_TEST(a_block_is_as_long_as_was_asked_for_to_the_page) {
    for (size_t bytes = 8193; bytes <= PS_MEDIUM_BYTES_LIMIT; bytes += 1237) {
        struct live_block live;
        live_start(&live, ps_heap_alloc(bytes), bytes, bytes);
        CHECK(is_medium(live.address));
        CHECK_EQ(ps_block_usable(live.address), ps_round_up(bytes, PS_MEDIUM_PAGE_BYTES));
        live_end(&live);
        ps_maintenance_flush();
    }
    check_live_blocks(0);
}

FRESH_TEST(classes_and_page_runs_have_what_lies_below_and_above) {
    void *small = ps_heap_alloc(8192);
    void *run = ps_heap_alloc(PS_MEDIUM_BYTES_LIMIT + 1);
    CHECK(!is_medium(small) && !is_medium(run));
    CHECK_EQ(engine_census().run_live_count, 1);
    ps_heap_free(small);
    ps_heap_free(run);
    check_live_blocks(0);
}

FRESH_TEST(a_mapping_of_its_own_comes_first_where_the_user_says_so) {
    engine_config.mmap_min_bytes = 64 * KIB;
    void *medium = ps_heap_alloc(64 * KIB - 1);
    void *mapping = ps_heap_alloc(64 * KIB);
    CHECK(is_medium(medium) && !is_medium(mapping));
    CHECK_EQ(engine_census().map_live_count, 1);
    ps_heap_free(medium);
    ps_heap_free(mapping);
    check_live_blocks(0);
}

FRESH_TEST(the_newest_block_freed_that_suits_is_the_next) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        fill(BLOCKS, sizes[s]);
        void *freed = blocks[7].address;
        live_end(&blocks[7]);
        live_start(&blocks[7], ps_heap_alloc(sizes[s]), sizes[s], s);
        CHECK_PTR_EQ(blocks[7].address, freed);
        WHEN("a shorter one was freed since");
        void *shorter = ps_heap_alloc(8193);
        freed = blocks[8].address;
        live_end(&blocks[8]);
        ps_heap_free(shorter);
        live_start(&blocks[8], ps_heap_alloc(sizes[s]), sizes[s], s);
        CHECK_PTR_EQ(blocks[8].address, sizes[s] <= 12 * KIB ? shorter : freed);
        live_end_all(blocks, BLOCKS);
    }
}

FRESH_TEST(no_more_than_the_limits_waits) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        size_t length = ps_round_up(sizes[s], PS_MEDIUM_PAGE_BYTES);
        fill(BLOCKS, sizes[s]);
        ps_maintenance_flush();
        for (size_t i = 0; i < BLOCKS; i++) {
            live_end(&blocks[i]);
            CHECK_CMP(waiting_bytes(), <=, ps_min(PS_FRONT_LENGTH_BYTES, 16 * length));
        }
    }
    ps_maintenance_trim(0);
    CHECK_EQ(waiting_bytes(), 0);
    check_live_blocks(0);
}

FRESH_TEST(blocks_of_all_lengths_have_one_limit) {
    ps_engine_start();
    for (int round = 0; round < 4; round++) {
        for (size_t pages = 3; pages <= PS_MEDIUM_PAGES_LIMIT; pages++) {
            fill(20, pages * PS_MEDIUM_PAGE_BYTES);
            live_end_all(blocks, 20);
        }
    }
    CHECK_CMP(waiting_bytes(), >, PS_FRONT_MEDIUM_BYTES / 2);
    CHECK_CMP(waiting_bytes(), <=, PS_FRONT_MEDIUM_BYTES);
    ps_maintenance_trim(0);
    CHECK_EQ(waiting_bytes(), 0);
}

FRESH_TEST(the_longest_blocks_wait_too) {
    void *block = ps_heap_alloc(PS_MEDIUM_BYTES_LIMIT);
    ps_heap_free(block);
    CHECK_EQ(waiting_bytes(), PS_MEDIUM_BYTES_LIMIT);
    CHECK_PTR_EQ(ps_heap_alloc(PS_MEDIUM_BYTES_LIMIT), block);
    ps_heap_free(block);
    check_live_blocks(0);
}

static void hold_the_lock(void *unused) {
    (void)unused;
    ps_lock_acquire(&ps_medium_shard_at(0)->lock);
}

static void release_the_lock(void *unused) {
    (void)unused;
    ps_lock_release(&ps_medium_shard_at(0)->lock);
}

/* Several blocks at a time, no more than a front has. */
static void make_and_free(void *bytes) {
    size_t count = PS_FRONT_LENGTH_BYTES / ps_round_up(*(size_t *)bytes, PS_MEDIUM_PAGE_BYTES);
    count = ps_min(count, 8);
    void *made[8];
    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < count; i++) {
            made[i] = ps_heap_alloc(*(size_t *)bytes);
        }
        for (size_t i = 0; i < count; i++) {
            ps_heap_free(made[i]);
        }
    }
}

/* A thread that took the lock would block for ever. The clock does not advance. */
FRESH_TEST(a_thread_that_frees_what_it_made_takes_no_lock) {
    ps_engine_start();
    static size_t wanted[] = {8193, 10000, 20000, 65536, 100000, 131072, 200000, 262144};
    for (size_t s = 0; s < sizeof wanted / sizeof wanted[0]; s++) {
        make_and_free(&wanted[s]);
        struct worker holder; /* the lock may be had again by its own thread */
        worker_start(&holder);
        worker_do(&holder, hold_the_lock, NULL);
        make_and_free(&wanted[s]);
        worker_do(&holder, release_the_lock, NULL);
        worker_stop(&holder);
        ps_maintenance_flush();
    }
    check_live_blocks(0);
}

FRESH_TEST(threads_that_only_take_medium_blocks_look_at_the_clock) {
    engine_config.purge_delay_ms = 1000;
    ps_heap_free(ps_heap_alloc(6 * MIB)); /* a cached mapping */
    CHECK_EQ(engine_census().map_cached_count, 1);
    fake_os_advance_ms(1000);
    for (int i = 0; i < 200; i++) {
        ps_heap_free(ps_heap_alloc(20000));
    }
    CHECK_EQ(engine_census().map_cached_count, 0);
}

FRESH_TEST(what_waits_goes_back_when_time_passes) {
    ps_heap_free(ps_heap_alloc(20000));
    CHECK_CMP(waiting_bytes(), >, 0);
    for (int round = 0; round < 2; round++) { /* unused since the last round */
        fake_os_advance_ms(1000);
        for (int i = 0; i < 20; i++) {
            ps_heap_free(ps_heap_alloc(600 * KIB));
        }
    }
    CHECK_EQ(waiting_bytes(), 0);
    check_live_blocks(0);
}

/* ---- modes ---- */

static void blocks_are_of_spans_and_runs(uint32_t level) {
    engine_config.harden = level;
    for (size_t s = 0; s < SIZES; s++) {
        void *block = ps_heap_alloc(sizes[s]);
        CHECK(!is_medium(block));
        ps_heap_free(block);
        block = ps_block_alloc_aligned(sizes[s], 8 * KIB);
        CHECK(!is_medium(block));
        ps_heap_free(block);
    }
}

FRESH_TEST(level_1_has_none) { blocks_are_of_spans_and_runs(1); }
FRESH_TEST(level_2_has_none) { blocks_are_of_spans_and_runs(2); }
FRESH_TEST(level_3_has_none) { blocks_are_of_spans_and_runs(3); }

FRESH_TEST(recorded_blocks_are_of_classes_up_to_64_KiB) {
    engine_config.record = true;
    void *block = ps_heap_alloc(64 * KIB);
    void *longer = ps_heap_alloc(65 * KIB);
    CHECK(!is_medium(block) && is_medium(longer));
    CHECK_PTR_EQ(ps_block_resize(longer, 80 * KIB), longer);
    CHECK_EQ(engine_census().run_live_count, 1);
    ps_heap_free(block);
    ps_heap_free(longer);
    CHECK_EQ(engine_census().run_live_count, 0);
}

FRESH_TEST(the_largest_class_is_where_the_user_says) {
    engine_config.small_max_bytes = 20 * KIB;
    void *small = ps_heap_alloc(20 * KIB);
    void *medium = ps_heap_alloc(ps_size_class_max_bytes + 1);
    CHECK(!is_medium(small) && is_medium(medium));
    CHECK(!is_medium(ps_block_resize(medium, 12 * KIB)));
    ps_heap_free(small);
}

/* ---- pages of the system ---- */

static void use_pages_of(size_t page_bytes) {
    fake_os_set_page_bytes(page_bytes);
    for (size_t s = 0; s < SIZES; s++) {
        fill(40, sizes[s]);
        for (size_t i = 0; i < 40; i++) {
            CHECK(is_medium(blocks[i].address));
            CHECK_EQ((uintptr_t)blocks[i].address % page_bytes, 0);
            CHECK_EQ(ps_block_usable(blocks[i].address), ps_round_up(sizes[s], page_bytes));
        }
        for (size_t i = 0; i < 40; i += 2) {
            CHECK(live_resize(&blocks[i], sizes[s] * 3 / 2, i));
            CHECK(live_resize(&blocks[i + 1], 8193, i));
        }
        live_end_all(blocks, 40);
        fake_os_advance_ms(100);
    }
    ps_maintenance_trim(0);
    CHECK_EQ(fake_os_breaches(), 0);
    check_live_blocks(0);
}

FRESH_TEST(pages_of_16_KiB_are_whole) { use_pages_of(16 * KIB); }
FRESH_TEST(pages_of_64_KiB_are_whole) { use_pages_of(64 * KIB); }

/* ---- contents and sizes ---- */

FRESH_TEST(calloc_finds_zeroes_in_fresh_pages_and_makes_them_in_used_ones) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        for (int i = 0; i < 3; i++) {
            unsigned char *block = ps_block_zalloc(sizes[s]);
            CHECK(engine_is_zero(block, sizes[s]));
            memset(block, 0xff, sizes[s]);
            ps_heap_free(block);
            if (i == 1) {
                ps_maintenance_trim(0);
            }
        }
    }
    check_live_blocks(0);
}

FRESH_TEST(a_block_grows_into_free_pages_behind_it_and_gives_its_end_back) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(20000), 20000, 1);
    void *before = live.address;
    CHECK(live_resize(&live, 100000, 2));
    CHECK_PTR_EQ(live.address, before);
    CHECK(live_resize(&live, 400000, 3));
    CHECK_PTR_EQ(live.address, before);
    CHECK_EQ(engine_census().run_live_bytes, ps_round_up(400000, PS_MEDIUM_PAGE_BYTES));
    CHECK(live_resize(&live, 30000, 4));
    CHECK_PTR_EQ(live.address, before);
    CHECK_EQ(engine_census().run_live_bytes, 32 * KIB);
    WHEN("a block lies right after it");
    void *blocker = ps_heap_alloc(12 * KIB);
    CHECK_PTR_EQ(blocker, (char *)before + 32 * KIB);
    CHECK(live_resize(&live, 33000, 5));
    CHECK(live.address != before);
    THEN("it moves, and has room to grow on");
    before = live.address;
    CHECK_EQ(ps_block_usable(before), 36 * KIB);
    CHECK(live_resize(&live, 8000, 6));
    CHECK(!is_medium(live.address));
    live_end(&live);
    ps_heap_free(blocker);
    check_live_blocks(0);
}

FRESH_TEST(every_alignment_up_to_a_granule_is_had_of_pages) {
    static struct live_block aligned[17 * 20];
    size_t count = 0;
    for (size_t align = 16; align <= PS_GRANULE_BYTES; align *= 2) {
        for (size_t bytes = 9000; bytes < 300000; bytes += 17000) {
            void *block = ps_block_alloc_aligned(bytes, align);
            CHECK_EQ((uintptr_t)block % align, 0);
            CHECK(is_medium(block));
            live_start(&aligned[count++], block, bytes, align);
        }
    }
    live_end_all(aligned, count);
    check_live_blocks(0);
}

/* ---- threads and forks ---- */

static void free_all(void *unused) {
    (void)unused;
    live_end_all(blocks, BLOCKS);
}

FRESH_TEST(another_thread_frees_into_a_front) {
    struct worker freer;
    fill(4, 20000);
    worker_start(&freer);
    worker_do(&freer, free_all, NULL);
    CHECK_EQ(waiting_bytes(), 4 * 20 * KIB);
    worker_stop(&freer);
    CHECK_EQ(waiting_bytes(), 4 * 20 * KIB); /* fronts are of no thread */
    check_live_blocks(0);
}

static void *in_child;

static void use_in_child(void) {
    CHECK_EQ(waiting_bytes(), 0); /* what waited in the thread that is not here went back */
    check_live_blocks(2);
    ps_heap_free(in_child);
    ps_maintenance_trim(0);
    check_live_blocks(1);
}

static void keep_some_waiting(void *unused) {
    (void)unused;
    fill(4, 20000);
    live_end_all(blocks, 3);
}

FRESH_TEST(the_child_of_a_fork_has_what_waited_in_other_threads) {
    struct worker other;
    in_child = ps_heap_alloc(50000);
    worker_start(&other);
    worker_do(&other, keep_some_waiting, NULL);
    CHECK_EQ(waiting_bytes(), 3 * 20 * KIB);
    CHECK_EQ(fresh_status(use_in_child), 0);
    CHECK_EQ(waiting_bytes(), 3 * 20 * KIB);
    worker_stop(&other);
}

/* Blocks of no class: 0 bytes, aligned to more than a class is. */
FRESH_TEST(hardened_blocks_are_no_medium_blocks_even_when_empty) {
    engine_config.harden = 2;
    engine_config.small_max_bytes = 1 * KIB;
    ps_engine_start();
    CHECK(!ps_medium_is_size(0, PS_MEDIUM_PAGE_BYTES));
    char *block = ps_block_alloc_aligned(0, PS_MEDIUM_PAGE_BYTES);
    REQUIRE(block != NULL);
    memset(block, 1, ps_block_usable(block));
    ps_heap_free(block);
}

UNIT_MAIN
