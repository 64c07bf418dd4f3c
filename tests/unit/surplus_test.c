// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The bound on free memory where no background thread runs. Only the tests advance the
 * clock, so that nothing is released because of its age.
 */
#include "tests/unit/engine.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/surplus.h"
#include "pools/engine/page/retention.h"

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

static size_t large_bytes;

static void free_large_blocks(void) {
    engine_config.mmap_min_bytes = 32 * MIB;
    size_t count = 160 * MIB / large_bytes;
    fill(0, count, large_bytes);
    empty(0, count);
    CHECK_CMP(free_bytes(), <=, KEPT_BYTES_MOST);
}

/* Each size in an engine of its own: in one, the sizes together swing. */
TEST(large_blocks_go_at_their_free) {
    const size_t sizes[] = {100 * KIB, 200 * KIB, 250 * KIB, 3 * MIB, 20 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        large_bytes = sizes[i];
        fresh_run(free_large_blocks);
    }
}

FRESH_TEST(mappings_go_at_their_free) {
    fill(0, 6, 10 * MIB);
    empty(0, 6);
    CHECK_CMP(free_bytes(), <=, KEPT_BYTES_MOST);
}

static void call_slowly(int times) {
    for (int i = 0; i < times; i++) {
        ps_heap_free(ps_heap_alloc(600 * KIB));
    }
}

/* Purged bytes of a further round. */
static uint64_t round_of(void) {
    uint64_t purged = fake_os_purged_bytes();
    fill(0, BLOCKS, BLOCK_BYTES);
    empty(0, BLOCKS);
    return fake_os_purged_bytes() - purged;
}

FRESH_TEST(rounds_pay_for_the_first_two) {
    CHECK_CMP(round_of(), >, 32 * MIB);
    for (int round = 0; round < 8; round++) {
        CHECK_EQ(round_of(), 0);
        fake_os_advance_ms(DELAY_MS / 5);
    }
    WHEN("the swings are over");
    fake_os_advance_ms(PS_SURPLUS_SWING_MS + 1);
    THEN("their memory goes");
    call_slowly(1000);
    CHECK_CMP(free_bytes(), <=, KEPT_BYTES_MOST);
}

FRESH_TEST(rounds_further_apart_than_a_swing_retain_nothing) {
    for (int round = 0; round < 4; round++) {
        CHECK_CMP(round_of(), >, 32 * MIB);
        fake_os_advance_ms(PS_SURPLUS_SWING_MS + 1);
    }
}

/* A round of which each half takes longer than the delay. Returns the purged bytes. */
static uint64_t slow_round(void) {
    uint64_t purged = fake_os_purged_bytes();
    for (int half = 0; half < 2; half++) {
        if (half == 0) {
            fill(0, 100, 600 * KIB);
        } else {
            empty(0, 100);
        }
        for (int part = 0; part < 40; part++) {
            fake_os_advance_ms(DELAY_MS / 20);
            (void)ps_maintenance_step(ps_os_now_ms());
        }
    }
    return fake_os_purged_bytes() - purged;
}

FRESH_TEST(swings_longer_than_the_delay_are_learned) {
    GIVEN("a process with a background thread");
    fill(0, 1, BLOCK_BYTES);
    ps_control_page.x_background = PS_BACKGROUND_ASLEEP;
    CHECK_CMP(slow_round(), >, 32 * MIB);
    CHECK_CMP(slow_round(), >, 32 * MIB); /* tells by its first half */
    WHEN("it has swung by more than is worth its faults");
    CHECK_CMP(slow_round(), <, 16 * MIB);
    CHECK_CMP(slow_round(), <, 16 * MIB);
    CHECK_CMP(ps_retention_kept_bytes(), >, 32 * MIB);
    WHEN("it swings no more");
    uint64_t purged = fake_os_purged_bytes();
    for (int i = 0; i < 64 && ps_maintenance_step(ps_os_now_ms()) != 0; i++) {
        fake_os_advance_ms(100);
    }
    THEN("the background thread releases the memory, and finds nothing more to do");
    CHECK_EQ(ps_retention_kept_bytes(), 0);
    CHECK_CMP(fake_os_purged_bytes(), >, purged + 32 * MIB);
    CHECK_EQ(ps_maintenance_step(ps_os_now_ms()), 0);
}

FRESH_TEST(memory_that_is_short_is_not_retained_for_swings) {
    ps_retention_set_delay(DELAY_MS);
    ps_retention_keep(64 * MIB);
    CHECK_EQ(ps_retention_kept_bytes(), 64 * MIB);
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)PS_PRESSURE_NEAR);
    CHECK_EQ(ps_retention_kept_bytes(), 0);
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
