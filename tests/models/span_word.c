/* SPDX-License-Identifier: MIT */
/*
 * The remote word of a span: blocks returned by other threads, the notice that exactly one of them
 * owes, with and without a request when all are back, collection by the owner, the steal of a fully
 * free span. Sources, bounds and planted faults: span_word.model.
 */
#include "pools/engine/small/span_remote.h"

#include <world.h>

#define OWNER_KEY ((uintptr_t)4096)

static struct ps_span *span;
static unsigned x_notices_sent; /* owed by transfers */

static void begin(uint16_t blocks, size_t notice_at) {
    world_begin(blocks, 2);
    span = world_full_span(OWNER_KEY);
    (void)ps_span_arm(span, notice_at);
}

static void note(bool is_notice) {
    if (is_notice) {
        ps_add_relaxed(&x_notices_sent, 1u);
    }
}

static void hand_list(size_t first, size_t blocks) {
    char *head = ps_span_list_end(span);
    for (size_t i = 0; i < blocks; i++) {
        char *block = world_block(span, first + i);
        ps_link_write(block, head, span->salt);
        head = block;
    }
    note(ps_span_hand_list(span, head, ps_span_block(span, first), blocks) & PS_HANDED_NOTICE);
}

static void hand_gap(size_t first, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        (void)world_block(span, first + i);
    }
    note(ps_span_transfer_blocks(span, ps_span_block(span, first), blocks) & PS_HANDED_NOTICE);
}

static void use_runs(void) {
    for (size_t head = span->gap_head; head != 0;) {
        struct ps_gap *gap = (struct ps_gap *)ps_span_block(span, head - 1);
        size_t next = gap->next;
        explore_use(gap, gap->blocks * (size_t)WORLD_BLOCK_BYTES);
        head = next;
    }
}

/* The owner collects without a request. Collected blocks belong to it. */
static void collect(void) {
    ps_span_settle(span);
    (void)ps_span_collect(span);
    for (char *block = span->stash; !ps_link_is_end(block); block = ps_link_of(block, span->salt)) {
        explore_use(block, WORLD_BLOCK_BYTES);
    }
    use_runs();
    if (ps_link_is_end(span->free)) { /* as heap/refill.c grants it */
        span->free = span->stash;
        span->free_count = span->stash_count;
        span->stash = ps_span_list_end(span);
        span->stash_count = 0;
    }
}

static void all_back(void) {
    for (int i = 0; i < 4 && span->used != 0; i++) {
        collect();
    }
    ps_span_check(span);
    world_check_all_free(span);
}

/* ---- transfers and collections ---- */

static void four_blocks(void) { begin(4, 2); }
static void six_blocks(void) { begin(6, 2); }
static void hand_0(void) { hand_list(0, 1); }
static void hand_1(void) { hand_list(1, 1); }
static void hand_2_and_3(void) { hand_gap(2, 2); }
static void hand_0_then_1(void) {
    hand_0();
    hand_1();
}
static void hand_4_and_5(void) { hand_list(4, 2); }
static void collect_twice(void) {
    collect();
    collect();
}

static void one_notice(void) {
    EXPLORE_ASSERT(x_notices_sent == 1 && ps_span_is_queued(span));
    all_back();
}

/* ---- all back, without a request ---- */

static void four_blocks_unwatched(void) { begin(4, PS_NOTICE_NEVER); }

/* The owner uses the collected blocks. */
static void collect_and_use(void) {
    collect();
    if (span->used == 0) {
        explore_use(span->run.base, ps_span_capacity(span) * WORLD_BLOCK_BYTES);
    }
}

/* If the owner collected some blocks before the last was returned: 0 notices, otherwise 1. */
static void one_notice_if_all_were_there(void) {
    EXPLORE_ASSERT(x_notices_sent == ps_span_is_queued(span));
    EXPLORE_ASSERT(x_notices_sent == 1 || span->used != ps_span_capacity(span));
    explore_outcome(x_notices_sent);
    all_back();
}

/* ---- steals ---- */

static unsigned x_is_listed; /* the span is on its owner's list of notices */

static void detached(void) {
    four_blocks();
    ps_span_detach(span);
}

static void list_if(unsigned handed) {
    if ((handed & PS_HANDED_NOTICE) != 0) {
        ps_exchange_release(&x_is_listed, 1u);
    }
}

static void hand_and_list(size_t first) {
    list_if(ps_span_transfer_blocks(span, world_block(span, first), 1));
    list_if(ps_span_transfer_blocks(span, world_block(span, first + 1), 1));
}

static void hand_0_then_1_and_list(void) { hand_and_list(0); }
static void hand_2_then_3_and_list(void) { hand_and_list(2); }

static void steal(void) {
    if (ps_exchange_acquire(&x_is_listed, 0u) == 0) {
        return;
    }
    if (ps_span_steal(span, OWNER_KEY)) {
        explore_use(span->run.base, ps_span_capacity(span) * WORLD_BLOCK_BYTES);
    } else {
        ps_exchange_release(&x_is_listed, 1u);
    }
}

static void stolen_or_listed(void) {
    EXPLORE_ASSERT(x_is_listed == ps_span_is_queued(span));
    explore_outcome(x_is_listed);
    all_back();
}

const struct explore_scenario explore_scenarios[] = {
    {"transfers", four_blocks, {hand_0_then_1, hand_2_and_3}, one_notice, false},
    {"transfer_collect", four_blocks, {hand_0_then_1, hand_2_and_3, collect}, one_notice, false},
    {"all_back",
     four_blocks_unwatched,
     {hand_0_then_1, hand_2_and_3, collect_and_use},
     one_notice_if_all_were_there,
     false},
    {"steal",
     detached,
     {hand_0_then_1_and_list, hand_2_then_3_and_list, steal},
     stolen_or_listed,
     false},
    {"three_transfer_collect",
     six_blocks,
     {hand_0_then_1, hand_2_and_3, hand_4_and_5, collect_twice},
     one_notice,
     true},
    {NULL, NULL, {NULL}, NULL, false},
};
