// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Free streaks: frees in sequence, up or down, are gathered without touching block or slab, and the
 * account comes out even wherever such a run begins, ends or is interrupted.
 */
#include "tests/unit/engine.h"

#define BLOCK_LIMIT 20000

static struct live_block blocks[BLOCK_LIMIT];
static const size_t run_sizes[] = {8, 16, 48, 64, 112, 256};
#define SIZE_COUNT (sizeof run_sizes / sizeof run_sizes[0])

/* Allocates `count` blocks; a fresh thread allocates in ascending order within a slab. */
static void fill(size_t count, size_t bytes) { live_start_all(blocks, count, bytes); }

static bool is_streak_open(void) { return ps_front_thread.streak_step != 0; }

static size_t capacity_of(size_t bytes) {
    const struct ps_size_class *class = &ps_size_classes[ps_size_class_of(bytes)];
    return (size_t)(class->limit - class->first);
}

/* Blocks that the next free of this address would add to the open run. */
static bool would_continue_streak(const void *address) {
    return is_streak_open() && (const char *)address == ps_front_thread.streak_next;
}

/* Frees all in ascending (or descending) order; returns how many the free streak alone took. */
static size_t free_in_order(size_t count, bool is_down) {
    size_t hot = 0;
    for (size_t i = 0; i < count; i++) {
        struct live_block *live = &blocks[is_down ? count - 1 - i : i];
        hot += would_continue_streak(live->address);
        live_end(live);
    }
    return hot;
}

static void check_sequence(size_t bytes, bool is_down) {
    size_t count = 3 * capacity_of(bytes) / 2;
    count = count < BLOCK_LIMIT ? count : BLOCK_LIMIT;
    fill(count, bytes);
    size_t hot = free_in_order(count, is_down);
    CHECK_CMP(hot + PS_FRONT_BLOCKS + 64, >, count); /* once the front is full */
    check_live_blocks(0);
}

FRESH_TEST(ascending_frees_become_streaks) {
    ps_engine_start();
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        check_sequence(run_sizes[i], false);
        ps_maintenance_trim(0); /* the next round gets its blocks in ascending order again */
    }
}

FRESH_TEST(descending_frees_become_streaks) {
    ps_engine_start();
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        check_sequence(run_sizes[i], true);
        ps_maintenance_trim(0);
    }
}

FRESH_TEST(a_hot_free_writes_neither_block_nor_slab) {
    fill(2000, 64);
    size_t i = 0;
    while (!is_streak_open() && i < 2000) {
        live_end(&blocks[i++]);
    }
    REQUIRE(i < 1000);
    const struct ps_slab *slab = ps_slab_of(blocks[i].address);
    struct ps_slab before = *slab;
    for (; i < 1000 && would_continue_streak(blocks[i].address); i++) {
        struct live_block kept = blocks[i];
        live_end(&blocks[i]);
        CHECK(live_is_intact(&kept, kept.bytes));
        CHECK_PTR_EQ(ps_slab_of(kept.address), slab);
    }
    CHECK_CMP(i, >, 500);
    CHECK(memcmp(slab, &before, sizeof before) == 0);
}

FRESH_TEST(blocks_of_a_long_streak_are_handed_out_once_each) {
    GIVEN("a long streak");
    fill(3000, 16);
    (void)free_in_order(2500, false);
    WHEN("as many are taken");
    fill(2500, 16);
    THEN("all are intact");
    for (size_t i = 0; i < 3000; i++) {
        live_end(&blocks[i]);
    }
    check_live_blocks(0);
}

FRESH_TEST(a_streak_ends_at_the_edge_of_its_slab) {
    ps_engine_start();
    for (size_t size = 0; size < SIZE_COUNT; size++) {
        size_t bytes = run_sizes[size];
        size_t capacity = capacity_of(bytes);
        if (2 * capacity + 1 > BLOCK_LIMIT) {
            continue;
        }
        GIVEN("two full slabs, and a page run of the program's, as near as can be");
        fill(2 * capacity, bytes);
        void *large = ps_heap_alloc(65 * KIB);
        const struct ps_slab *first = ps_slab_of(blocks[0].address);
        CHECK(ps_slab_of(blocks[capacity].address) != first);
        for (int is_down = 0; is_down < 2; is_down++) {
            WHEN("all blocks of one of them are freed in sequence");
            struct live_block *half = &blocks[is_down ? capacity : 0];
            const struct ps_slab *own = ps_slab_of(half[0].address);
            for (size_t i = 0; i < capacity; i++) {
                live_end(&half[is_down ? capacity - 1 - i : i]);
            }
            THEN("the next address of the run is no block of another slab");
            if (is_streak_open()) {
                CHECK_PTR_EQ(ps_slab_of(ps_front_thread.streak_next), own);
                size_t index = ps_slab_index(own, ps_front_thread.streak_next);
                CHECK(index < ps_slab_class(own)->first || index >= ps_slab_class(own)->limit);
            }
            CHECK((void *)ps_front_thread.streak_next != large);
        }
        ps_heap_free(large);
        check_live_blocks(0);
        ps_maintenance_trim(0);
    }
}

FRESH_TEST(a_block_that_is_allocated_again_during_a_streak_may_continue_it) {
    fill(1000, 64);
    size_t freed = 0;
    while (!is_streak_open()) {
        live_end(&blocks[freed++]);
    }
    for (int i = 0; i < 100; i++) {
        live_end(&blocks[freed++]);
    }
    WHEN("allocations and frees of the same class go on beside the run");
    struct live_block other[50];
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < 50; i++) {
            live_start(&other[i], ps_heap_alloc(64), 64, i);
        }
        live_end(&blocks[freed++]);
        for (size_t i = 50; i-- > 0;) {
            live_end(&other[i]);
        }
        live_end(&blocks[freed++]);
    }
    check_live_blocks(1000 - freed);
    live_end_all(blocks, 1000);
    check_live_blocks(0);
}

FRESH_TEST(streaks_that_are_interrupted_anywhere_keep_the_account) {
    uint64_t state = 77;
    size_t live_count = 0;
    for (int round = 0; round < 3000; round++) {
        size_t first = engine_random(&state) % 4000;
        size_t length = engine_random(&state) % 400;
        size_t bytes = run_sizes[engine_random(&state) % SIZE_COUNT];
        bool is_down = engine_random(&state) % 2 == 0;
        for (size_t i = 0; i < length; i++) {
            struct live_block *live = &blocks[is_down ? first + length - i : first + i];
            if (live->address != NULL && round % 3 != 0) {
                live_end(live);
                live_count--;
            } else if (live->address == NULL) {
                live_start(live, ps_heap_alloc(bytes), bytes, engine_random(&state));
                live_count++;
            }
        }
        if (round % 100 == 0) {
            check_live_blocks(live_count);
        }
    }
    live_end_all(blocks, BLOCK_LIMIT);
    check_live_blocks(0);
}

FRESH_TEST(memory_of_an_open_run_is_found_before_the_os_is_asked) {
    ps_engine_start();
    size_t capacity = capacity_of(64);
    fill(capacity, 64);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    free_in_order(capacity, false);
    CHECK(is_streak_open());
    uint64_t slabs = engine_census().small_slab_bytes; /* also books the run */
    fill(capacity, 64);
    free_in_order(capacity, false);
    fill(capacity, 64);
    CHECK_EQ(engine_census().small_slab_bytes, slabs);
    live_end_all(blocks, capacity);
    check_live_blocks(0);
}

FRESH_TEST(free_of_null_does_nothing_with_and_without_an_open_streak) {
    ps_heap_free(NULL);
    fill(1000, 16);
    ps_heap_free(NULL);
    for (size_t i = 0; i < 500; i++) {
        live_end(&blocks[i]);
    }
    CHECK(is_streak_open());
    ps_heap_free(NULL);
    check_live_blocks(500);
    live_end_all(blocks, 1000);
    ps_heap_free(NULL);
    check_live_blocks(0);
}

UNIT_MAIN
