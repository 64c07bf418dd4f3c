// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Memory of owners that do nothing: threads that read the clock steal spans whose blocks are all
 * back, in steps of bounded length.
 */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/remote.h"
#include "pools/engine/small/span_remote.h"

#include <sched.h>

ENGINE_HEAPS

#define BLOCKS 8000
#define BLOCK_BYTES 1000
#define DELAY_MS 1000

static struct live_block blocks[BLOCKS];
static size_t block_bytes = BLOCK_BYTES;

static void allocate_all(void *unused) {
    (void)unused;
    live_start_all(blocks, BLOCKS, block_bytes);
}

static void free_all(void *unused) {
    (void)unused;
    live_end_all(blocks, BLOCKS);
    (void)engine_census(); /* returns gathered blocks */
}

static void free_fresh_block(void *unused) {
    (void)unused;
    ps_heap_free(ps_heap_alloc(300)); /* of a class that this thread has not used */
}

/* Slow calls of this thread: time passes. */
static void be_active(uint64_t ms) {
    for (uint64_t step = 0; step < ms; step += 100) {
        fake_os_advance_ms(100);
        for (int i = 0; i < 20; i++) {
            ps_heap_free(ps_heap_alloc(600 * KIB));
        }
    }
}

FRESH_TEST(a_trim_drops_spans_returned_to_another_thread) {
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
    CHECK_CMP(engine_census().small_span_bytes, <, before.small_span_bytes / 10);
    CHECK(!ps_heap_trim(0));
    WHEN("the owner runs again");
    worker_do(&owner, allocate_all, NULL);
    CHECK_CMP(engine_census().small_span_bytes, <=, before.small_span_bytes + PS_GRANULE_BYTES);
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

/* Makes each full span look as if it was armed just when its blocks came back. */
static void miss_all_notices(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        struct ps_slot *slot = ps_page_map_slot(blocks[i].address);
        struct ps_span *span = ps_span_of_inside(slot, blocks[i].address);
        ps_store_relaxed(&span->x_notice_at, (uint16_t)PS_NOTICE_NEVER);
    }
}

FRESH_TEST(a_fully_free_span_of_an_ended_thread_is_never_missed) {
    worker_do_and_end(allocate_all, NULL);
    uint64_t span_bytes = engine_census().small_span_bytes;
    miss_all_notices();
    free_all(NULL);
    be_active(4 * DELAY_MS);
    CHECK_CMP(fake_os_purged_bytes(), >, span_bytes * 9 / 10);
    CHECK_CMP(engine_census().small_span_bytes, <, span_bytes / 10);
    check_live_blocks(0);
}

FRESH_TEST(a_fully_free_span_of_an_idle_owner_is_never_missed) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    uint64_t span_bytes = engine_census().small_span_bytes;
    miss_all_notices();
    free_all(NULL);
    be_active(4 * DELAY_MS);
    CHECK_CMP(fake_os_purged_bytes(), >, span_bytes * 9 / 10);
    worker_stop(&owner);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

/* Spans of the class of these blocks. */
static uint64_t class_spans(void) {
    return engine_census().classes[ps_size_class_of(block_bytes)].spans;
}

FRESH_TEST(one_tick_takes_a_bounded_number_of_spans) {
    struct worker owner;
    ps_engine_start();
    worker_start(&owner);
    block_bytes = 8192;
    GIVEN("an idle owner of more spans than one step takes");
    worker_do(&owner, allocate_all, NULL);
    free_all(NULL);
    uint64_t spans = class_spans();
    REQUIRE(spans > 3 * 256);
    fake_os_advance_ms(DELAY_MS);
    uint64_t steps = 0;
    for (uint64_t left = spans; left > 2 && steps < 100; steps++) {
        ps_steal_tick(ps_os_now_ms());
        CHECK_CMP(left - class_spans(), <=, 256);
        left = class_spans();
    }
    CHECK_CMP(steps, <=, spans / 256 + 1);
    worker_stop(&owner);
    check_live_blocks(0);
}

FRESH_TEST(an_owner_that_resumes_collects_a_bounded_number_of_spans) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, NULL);
    free_all(NULL);
    uint64_t spans = class_spans();
    worker_do(&owner, free_fresh_block, NULL);
    CHECK_CMP(spans - class_spans(), <=, 256);
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
    free_all(NULL); /* checks the pattern of the others */
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
