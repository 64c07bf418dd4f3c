// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The theft of a full span, step by step. */
#include "tests/unit/engine.h"

#include "pools/engine/small/span_remote.h"

#define KEY ((uintptr_t)0x1001)

static struct ps_span *full_span(void) {
    ps_engine_start();
    struct ps_span *span = ps_span_create(ps_size_class_of(1000), KEY);
    REQUIRE(span != NULL);
    span->place = PS_PLACE_FULL;
    span->carved = span->limit;
    ps_store_relaxed(&span->used, (uint16_t)ps_span_capacity(span));
    ps_span_settle(span);
    CHECK(ps_span_arm(span, ps_span_capacity(span)));
    return span;
}

static unsigned hand_back(struct ps_span *span, size_t from, size_t to) {
    unsigned all = 0;
    for (size_t i = from; i < to; i++) {
        char *block = ps_span_block(span, i);
        all |= ps_span_hand_list(span, block, block, 1);
    }
    return all;
}

FRESH_TEST(only_a_fully_free_detached_span_can_be_stolen) {
    struct ps_span *span = full_span();
    ps_span_detach(span);
    CHECK(ps_span_arm(span, 3));
    CHECK_EQ(hand_back(span, span->first, (size_t)span->limit - 1), PS_HANDED_NOTICE);
    CHECK(!ps_span_steal(span, KEY));
    CHECK_EQ(hand_back(span, (size_t)span->limit - 1, span->limit), PS_HANDED_ALL);
    ps_span_attach(span);
    CHECK(!ps_span_steal(span, KEY)); /* its owner is processing it */
    CHECK(ps_span_is_queued(span));
    CHECK_EQ(ps_span_collect(span), ps_span_capacity(span));
    CHECK_EQ(span->used, 0);
    ps_span_check(span);
    CHECK(!ps_span_steal(span, KEY)); /* nothing of it is out any more */
}

FRESH_TEST(a_stolen_span_is_drained_and_not_queued) {
    struct ps_span *span = full_span();
    ps_span_detach(span);
    CHECK_EQ(hand_back(span, span->first, span->limit), PS_HANDED_NOTICE | PS_HANDED_ALL);
    CHECK(ps_span_steal(span, KEY));
    CHECK(!ps_span_is_queued(span));
    CHECK_EQ(span->used, 0);
    ps_span_check(span);
    ps_span_destroy(span);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(a_span_of_another_heap_is_not_stolen) {
    struct ps_span *span = full_span();
    ps_span_detach(span);
    (void)hand_back(span, span->first, span->limit);
    CHECK(!ps_span_steal(span, KEY + 0x1000));
    CHECK_EQ(ps_span_remote_blocks(span), ps_span_capacity(span)); /* unchanged */
    CHECK(ps_span_steal(span, KEY));
    ps_span_destroy(span);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(a_span_that_was_almost_stolen_can_be_stolen_later) {
    struct ps_span *span = full_span();
    (void)hand_back(span, span->first, span->limit);
    CHECK(!ps_span_steal(span, KEY)); /* its owner has it in hand */
    CHECK(ps_span_is_queued(span));
    ps_span_detach(span);
    CHECK(ps_span_steal(span, KEY));
    ps_span_destroy(span);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(the_last_block_sends_a_notice_at_any_threshold) {
    struct ps_span *span = full_span();
    CHECK(ps_span_arm(span, PS_NOTICE_NEVER));
    CHECK_EQ(hand_back(span, span->first, (size_t)span->limit - 1), PS_HANDED_OVER);
    CHECK_EQ(hand_back(span, (size_t)span->limit - 1, span->limit),
             PS_HANDED_NOTICE | PS_HANDED_ALL);
    CHECK_EQ(ps_span_collect(span), ps_span_capacity(span));
    ps_span_clear_queued(span);
    ps_span_destroy(span);
}

UNIT_MAIN
