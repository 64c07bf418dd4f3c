// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Spans that drain from both sides: some blocks freed by their owner, some by others. Whichever
 * is last, and whatever happens in between, the memory is released once and for all.
 */
#include "tests/unit/engine.h"

#include "pools/engine/heap/remote.h"
#include "tests/unit/worker.h"

#include "pools/engine/small/span_remote.h"

ENGINE_HEAPS
ENGINE_LONG_CLASSES

#define BLOCK_BYTES 1024
#define SPANS 60
#define BLOCK_LIMIT (SPANS * 64)

static struct live_block blocks[BLOCK_LIMIT];
static size_t span_blocks; /* of one span */
static size_t block_count; /* in SPANS full spans, in the order of their addresses in each */

struct share {
    size_t from; /* of each span's blocks: every step-th one, from this on */
    size_t step;
};

static void fill_spans(void *unused) {
    (void)unused;
    ps_engine_start();
    const struct ps_size_class *class = &ps_size_classes[ps_size_class_of(BLOCK_BYTES)];
    span_blocks = (size_t)(class->limit - class->first);
    block_count = SPANS * span_blocks;
    live_start_all(blocks, block_count, BLOCK_BYTES);
}

static void free_share(void *argument) {
    const struct share *share = argument;
    for (size_t span = 0; span < SPANS; span++) {
        for (size_t i = share->from; i < span_blocks; i += share->step) {
            struct live_block *live = &blocks[span * span_blocks + i];
            if (live->address != NULL) {
                live_end(live);
            }
        }
    }
    (void)engine_census(); /* returns gathered blocks */
}

/* Slow calls of a class of their own, while the clock goes on. */
static void pass_time(void *unused) {
    (void)unused;
    for (int step = 0; step < 20; step++) {
        fake_os_advance_ms(100);
        for (int i = 0; i < 10; i++) {
            ps_heap_free(ps_heap_alloc(600 * KIB));
        }
    }
}

/* Both take turns with their shares; afterwards only time passes, no call of that class. */
static void check_shares(struct share *shares, const bool *is_owners, size_t count) {
    struct worker owner;
    struct worker other;
    worker_start(&owner);
    worker_start(&other);
    worker_do(&owner, fill_spans, NULL);
    for (size_t i = 0; i < count; i++) {
        worker_do(is_owners[i] ? &owner : &other, free_share, &shares[i]);
    }
    worker_do(&owner, pass_time, NULL);
    CHECK_CMP(engine_census().small_span_bytes, <=, 2 * PS_GRANULE_BYTES);
    worker_stop(&other);
    worker_stop(&owner);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(spans_freed_half_by_their_owner_and_then_half_by_another_go_back) {
    struct share shares[] = {{0, 2}, {1, 2}};
    const bool is_owners[] = {true, false};
    check_shares(shares, is_owners, 2);
}

FRESH_TEST(spans_freed_half_by_another_and_then_half_by_their_owner_go_back) {
    struct share shares[] = {{0, 2}, {1, 2}};
    const bool is_owners[] = {false, true};
    check_shares(shares, is_owners, 2);
}

FRESH_TEST(spans_freed_in_turns_are_released_by_any_last_thread) {
    for (int last = 0; last < 2; last++) {
        struct share shares[8];
        bool is_owners[8];
        for (size_t i = 0; i < 8; i++) {
            shares[i] = (struct share){i, 8};
            is_owners[i] = i % 2 == (size_t)last;
        }
        check_shares(shares, is_owners, 8);
    }
}

FRESH_TEST(spans_that_another_frees_to_the_last_few_blocks_go_back) {
    struct share shares[] = {{3, 1}, {0, 1}};
    const bool is_owners[] = {false, true};
    check_shares(shares, is_owners, 2);
}

static void free_last_blocks_as_time_passes(void *unused) {
    (void)unused;
    for (size_t i = 0; i < block_count; i++) {
        if (blocks[i].address != NULL) {
            fake_os_advance_ms(30);
            live_end(&blocks[i]);
        }
    }
}

FRESH_TEST(an_owner_may_tick_while_it_frees_the_last_blocks) {
    for (size_t kept = 2; kept < 9; kept++) {
        struct worker owner;
        struct share others = {0, 1};
        worker_start(&owner);
        worker_do(&owner, fill_spans, NULL);
        GIVEN("spans that others have freed except for the first few blocks");
        others.from = kept;
        worker_do_and_end(free_share, &others);
        WHEN("the owner frees those, and notices are taken and drained spans released in between");
        worker_do(&owner, free_last_blocks_as_time_passes, NULL);
        worker_do(&owner, pass_time, NULL);
        worker_stop(&owner);
        check_live_blocks(0);
        CHECK_EQ(engine_census().small_span_bytes, 0);
    }
}

FRESH_TEST(a_trim_ends_while_notices_for_drained_spans_are_under_way) {
    fill_spans(NULL);
    ps_heap_free(ps_heap_alloc(BLOCK_BYTES)); /* the current span has room, and remains current */
    struct ps_span *spans[3];
    GIVEN("drained spans whose last block another thread returned, its notice not pushed yet");
    for (size_t i = 0; i < 3; i++) {
        struct live_block *last = &blocks[(i + 5) * span_blocks];
        spans[i] = ps_span_at(last->address);
        for (size_t j = 1; j < span_blocks; j++) {
            live_end(&last[j]);
        }
        (void)engine_census();
        CHECK(live_is_intact(last, last->bytes));
        CHECK(ps_span_hand_list(spans[i], last->address, last->address, 1));
        last->address = NULL;
    }
    WHEN("the owner trims");
    ps_heap_trim(0);
    THEN("that ends, and the spans are released when the notices arrive");
    ps_thread_enter();
    for (size_t i = 0; i < 3; i++) {
        ps_notify_owner(spans[i]);
    }
    ps_thread_leave();
    live_end_all(blocks, block_count);
    ps_heap_trim(0);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

UNIT_MAIN
