// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The bound on free memory where no background thread runs. Only the tests advance the
 * clock, so that nothing is released because of its age.
 */
#include "tests/unit/engine.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/surplus.h"

#define BLOCK_BYTES 1000
#define BLOCKS (64 * MIB / BLOCK_BYTES)
#define DELAY_MS 250 /* the default */

/* The least bound, plus the allowed excess and the bytes freed between two checks. */
#define KEPT_BYTES_MOST (PS_SURPLUS_BYTES_LEAST + 8 * MIB)

static void *blocks[BLOCKS];

static void fill(size_t from, size_t to, size_t bytes) {
    for (size_t i = from; i < to; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        REQUIRE(blocks[i] != NULL);
    }
}

static void empty(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        ps_heap_free(blocks[i]);
    }
}

static uint64_t free_bytes(void) {
    struct ps_census census;
    ps_census_take(&census);
    return census.cache_dirty_bytes + census.map_cached_bytes;
}

FRESH_TEST(a_peak_that_is_freed_goes_without_a_further_call) {
    fill(0, BLOCKS, BLOCK_BYTES);
    empty(0, BLOCKS);
    CHECK_CMP(free_bytes(), <=, KEPT_BYTES_MOST);
    CHECK_CMP(fake_os_purged_bytes(), >=, 64 * MIB - KEPT_BYTES_MOST);
}

FRESH_TEST(a_small_program_keeps_all) {
    fill(0, 7 * MIB / BLOCK_BYTES, BLOCK_BYTES);
    empty(0, 7 * MIB / BLOCK_BYTES);
    CHECK_EQ(fake_os_purged_bytes(), 0);
}

FRESH_TEST(a_part_of_what_is_in_use_may_be_free) {
    fill(0, BLOCKS, BLOCK_BYTES);
    size_t kept = BLOCKS * 8 / 10; /* so a quarter of it is free */
    empty(kept, BLOCKS);
    CHECK_EQ(fake_os_purged_bytes(), 0);
    WHEN("less is in use");
    empty(kept / 2, kept);
    uint64_t bound = kept / 2 * 1024 / PS_SURPLUS_USED_FRACTION;
    CHECK_CMP(free_bytes(), <=, bound + KEPT_BYTES_MOST - PS_SURPLUS_BYTES_LEAST);
    CHECK_CMP(fake_os_purged_bytes(), >, 0);
}

/* In an order in which no two neighbours follow each other. Retains one in 20. */
static void empty_most(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t index = i * 7919 % BLOCKS;
        if (index % 20 != 0) {
            ps_heap_free(blocks[index]);
        }
    }
}

FRESH_TEST(pages_between_a_few_live_blocks_go_at_their_free) {
    fill(0, BLOCKS, BLOCK_BYTES);
    empty_most();
    /* Of 51 MiB of pages without a live block 12 may stay. */
    CHECK_CMP(fake_os_purged_bytes(), >=, 32 * MIB);
    WHEN("they are used again at once");
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 20 != 0) {
            fill(i, i + 1, BLOCK_BYTES);
        }
    }
    uint64_t purged = fake_os_purged_bytes();
    empty_most();
    CHECK_EQ(fake_os_purged_bytes(), purged);
}

FRESH_TEST(large_blocks_go_at_their_free) {
    const size_t sizes[] = {100 * KIB, 200 * KIB, 250 * KIB, 3 * MIB, 20 * MIB};
    engine_config.mmap_min_bytes = 32 * MIB;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t count = 160 * MIB / sizes[i];
        fill(0, count, sizes[i]);
        empty(0, count);
        CHECK_CMP(free_bytes(), <=, KEPT_BYTES_MOST);
        fake_os_advance_ms(DELAY_MS + 1);
    }
}

FRESH_TEST(mappings_go_at_their_free) {
    fill(0, 6, 10 * MIB);
    empty(0, 6);
    CHECK_CMP(free_bytes(), <=, KEPT_BYTES_MOST);
}

/* Purged bytes of a further round. */
static uint64_t round_of(void) {
    uint64_t purged = fake_os_purged_bytes();
    fill(0, BLOCKS, BLOCK_BYTES);
    empty(0, BLOCKS);
    return fake_os_purged_bytes() - purged;
}

FRESH_TEST(rounds_pay_for_the_first_and_then_for_one_in_a_while) {
    CHECK_CMP(round_of(), >, 32 * MIB);
    CHECK_EQ(round_of(), 0);
    CHECK_EQ(round_of(), 0);
    WHEN("the pause is over");
    fake_os_advance_ms(4 * DELAY_MS);
    size_t held = round_of();
    CHECK_CMP(held, >, 32 * MIB);
    THEN("the next one is twice as long");
    CHECK_EQ(round_of(), 0);
    fake_os_advance_ms(4 * DELAY_MS); /* the delay is over: idle memory goes */
    fill(0, 1, BLOCK_BYTES);
    empty(0, 1);
    CHECK_EQ(round_of() > 32 * MIB, false);
}

FRESH_TEST(rounds_further_apart_than_the_delay_make_no_pause) {
    for (int round = 0; round < 4; round++) {
        CHECK_CMP(round_of(), >, 32 * MIB);
        fake_os_advance_ms(DELAY_MS + 1);
    }
}

FRESH_TEST(a_long_delay_is_heeded) {
    engine_config.purge_delay_ms = PS_SURPLUS_DELAY_MOST_MS + 1;
    CHECK_EQ(round_of(), 0);
}

FRESH_TEST(a_background_thread_has_the_clock) {
    fill(0, 1, BLOCK_BYTES);
    ps_control_page.x_background = PS_BACKGROUND_ASLEEP;
    fill(1, BLOCKS, BLOCK_BYTES);
    empty(0, BLOCKS);
    CHECK_EQ(fake_os_purged_bytes(), 0);
}

static void call_slowly(int times) {
    for (int i = 0; i < times; i++) {
        ps_heap_free(ps_heap_alloc(600 * KIB));
    }
}

FRESH_TEST(memory_that_the_system_refuses_is_tried_once) {
    fill(0, BLOCKS, BLOCK_BYTES);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    empty(0, BLOCKS);
    call_slowly(1000);
    uint64_t calls = fake_os_calls(FAKE_OS_PURGE);
    CHECK_CMP(calls, >, 0);
    call_slowly(1000);
    CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), calls);
}

UNIT_MAIN
