// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Memory of owners that do nothing: others claim spans of which all blocks are back, purge their
 * memory, and leave them to their owners, which find them drained.
 */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/idle.h"
#include "pools/engine/small/central.h"
#include "pools/engine/small/span_remote.h"

#include <sched.h>

#define BLOCKS 8000
#define BLOCK_BYTES 1000
#define DELAY_MS 1000

static struct live_block blocks[BLOCKS];

static void allocate_all(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        live_start(&blocks[i], ps_heap_alloc(BLOCK_BYTES), BLOCK_BYTES, i);
        REQUIRE(blocks[i].address != NULL);
    }
}

static void free_all(void *unused) {
    (void)unused;
    live_end_all(blocks, BLOCKS);
    (void)engine_census(); /* hands over what was only gathered */
}

/* Slow calls of this thread: time passes. */
static void be_active(uint64_t ms) {
    for (uint64_t step = 0; step < ms; step += 100) {
        fake_os_advance_ms(100);
        for (int i = 0; i < 20; i++) {
            ps_heap_free(ps_heap_alloc(100 * KIB));
        }
    }
}

FRESH_TEST(a_trim_drops_what_has_come_back_to_another_thread) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    struct ps_census before = engine_census();
    free_all(NULL);
    struct ps_census freed = engine_census();
    CHECK(ps_heap_trim(0));
    struct ps_census trimmed = engine_census();
    CHECK_CMP(census_live_blocks(&trimmed), <=, census_live_blocks(&freed));
    CHECK_CMP(fake_os_purged_bytes(), >, before.small_span_bytes * 9 / 10);
    CHECK_EQ(engine_census().small_span_bytes, before.small_span_bytes); /* still the owner's */
    CHECK(!ps_heap_trim(0));
    WHEN("the owner wakes up");
    worker_do(&owner, allocate_all, NULL);
    CHECK_CMP(engine_census().small_span_bytes, <=, before.small_span_bytes + PS_SLICE_BYTES);
    worker_do(&owner, free_all, NULL);
    worker_stop(&owner);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(time_does_the_same_when_the_owner_has_been_idle_for_the_delay) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    uint64_t span_bytes = engine_census().small_span_bytes;
    free_all(NULL);
    be_active(DELAY_MS / 2);
    CHECK_CMP(fake_os_purged_bytes(), <, span_bytes / 2);
    be_active(3 * DELAY_MS);
    CHECK_CMP(fake_os_purged_bytes(), >, span_bytes * 9 / 10);
    worker_stop(&owner);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

/* As if each full span had been armed in the very moment in which its last blocks came back. */
static void miss_all_wakes(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        struct ps_slot *slot = ps_page_map_slot(blocks[i].address);
        struct ps_span *span = ps_span_of_inside(slot, blocks[i].address);
        ps_store_relaxed(&span->x_wake_at, (uint16_t)PS_WAKE_NEVER);
    }
}

FRESH_TEST(a_missed_wake_to_an_owner_whose_thread_has_ended_costs_memory_for_a_while_only) {
    worker_do_and_end(allocate_all, NULL);
    uint64_t span_bytes = engine_census().small_span_bytes;
    miss_all_wakes();
    free_all(NULL);
    CHECK_CMP(engine_census().small_span_bytes, >, span_bytes * 9 / 10); /* no notice was sent */
    be_active(20 * DELAY_MS);
    CHECK_CMP(fake_os_purged_bytes(), >, span_bytes * 9 / 10);
    CHECK_CMP(engine_census().small_span_bytes, <, span_bytes / 10);
    check_live_blocks(0);
}

FRESH_TEST(a_missed_wake_to_an_idle_owner_costs_memory_for_a_while_only) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    uint64_t span_bytes = engine_census().small_span_bytes;
    miss_all_wakes();
    free_all(NULL);
    be_active(20 * DELAY_MS);
    CHECK_CMP(fake_os_purged_bytes(), >, span_bytes * 9 / 10);
    worker_stop(&owner);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(spans_with_a_block_in_use_are_left_alone) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 20 != 0) {
            live_end(&blocks[i]);
        }
    }
    (void)engine_census();
    ps_heap_trim(0);
    free_all(NULL); /* checks the pattern of those that were left */
    worker_stop(&owner);
    check_live_blocks(0);
}

FRESH_TEST(an_owner_may_end_after_its_spans_were_dropped) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    free_all(NULL);
    ps_heap_trim(0);
    worker_stop(&owner);
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_span_bytes, 0);
    CHECK_EQ(census.orphan_span_count, 0);
    check_live_blocks(0);
}

/* ---- the claim itself, step by step, on the span of a block ---- */

static struct ps_span *fill_one_span(void) {
    ps_engine_start();
    const struct ps_size_class *class = &ps_size_classes[ps_size_class_of(BLOCK_BYTES)];
    struct ps_span *span = ps_span_create((uint32_t)(class - ps_size_classes), 0x1001);
    REQUIRE(span != NULL);
    span->carved = span->limit;
    ps_store_relaxed(&span->used, (uint16_t)ps_span_capacity(span));
    ps_span_settle(span);
    return span;
}

static void hand_back(struct ps_span *span, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        char *block = ps_span_block(span, i);
        (void)ps_span_hand_list(span, block, block, 1);
    }
}

FRESH_TEST(only_a_span_with_all_blocks_back_can_be_claimed_and_once) {
    struct ps_span *span = fill_one_span();
    (void)ps_span_arm(span, PS_WAKE_NEVER);
    CHECK(!ps_span_claim(span));
    hand_back(span, span->first, (size_t)span->limit - 1);
    CHECK(!ps_span_claim(span));
    hand_back(span, (size_t)span->limit - 1, span->limit);
    CHECK(ps_span_claim(span));
    CHECK(!ps_span_claim(span));
    THEN("the owner finds nothing until the claim is over");
    CHECK_EQ(ps_span_collect(span), 0);
    CHECK_EQ(span->used, ps_span_capacity(span));
    CHECK(ps_span_unclaim(span)); /* and is notified then */
    CHECK(ps_span_is_queued(span));
    CHECK(!ps_span_claim(span));
    CHECK_EQ(ps_span_collect(span), ps_span_capacity(span));
    CHECK_EQ(span->used, 0);
    CHECK_EQ(span->carved, span->first);
    ps_span_check(span);
}

FRESH_TEST(an_owner_that_is_being_woken_is_not_told_twice) {
    struct ps_span *span = fill_one_span();
    (void)ps_span_arm(span, ps_span_capacity(span));
    hand_back(span, span->first, span->limit);
    CHECK(ps_span_is_queued(span));
    CHECK(ps_span_claim(span));
    CHECK(!ps_span_unclaim(span));
    ps_span_clear_queued(span);
    CHECK_EQ(ps_span_collect(span), ps_span_capacity(span));
}

FRESH_TEST(a_span_orphaned_while_it_is_claimed_goes_back_in_the_end) {
    struct ps_span *span = fill_one_span();
    (void)ps_span_arm(span, PS_WAKE_NEVER);
    hand_back(span, span->first, span->limit);
    CHECK(ps_span_claim(span));
    ps_central_orphan(span);
    CHECK_EQ(ps_central_count(), 1);
    CHECK(ps_span_unclaim(span));
    CHECK(ps_central_wake(span, PS_KEY_ORPHAN));
    CHECK_EQ(ps_central_count(), 0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

/* ---- at the same time ---- */

static uint32_t x_is_over;

static void *trim_all_the_time(void *unused) {
    (void)unused;
    while (!ps_load_relaxed(&x_is_over)) {
        ps_heap_trim(0);
        sched_yield();
    }
    return NULL;
}

FRESH_TEST(owners_that_work_while_others_claim_lose_nothing) {
    struct worker workers[2];
    pthread_t trimmer;
    worker_start(&workers[0]);
    worker_start(&workers[1]);
    REQUIRE(pthread_create(&trimmer, NULL, trim_all_the_time, NULL) == 0);
    for (int round = 0; round < (FRESH_SLOWNESS > 2 ? 2 : 4); round++) {
        worker_do(&workers[round % 2], allocate_all, NULL);
        worker_do(&workers[(round / 2) % 2], free_all, NULL);
    }
    ps_store_relaxed(&x_is_over, 1u);
    pthread_join(trimmer, NULL);
    worker_stop(&workers[0]);
    worker_stop(&workers[1]);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

UNIT_MAIN
