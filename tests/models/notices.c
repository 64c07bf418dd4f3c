/* SPDX-License-Identifier: MIT */
/*
 * Notices: a full span whose blocks are returned by other threads, while its owner collects, ends,
 * has ended, or has the span stolen; and orphans, which are adopted. In every order each span is
 * released once or found with all its blocks, and no notice stays with a heap whose thread has
 * ended. Sources, bounds and planted faults: notices.model.
 */
#include "pools/engine/heap/bin_return.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_remote.h"

#include <world.h>

#define ALL_GRANULES WORLD_GRANULES

static struct ps_heap *owner;
static struct ps_heap *others[EXPLORE_THREADS];
static struct ps_span *span;     /* full, owned by `owner` */
static struct ps_span *spans[2]; /* in scenarios with two spans, of one block each */

/* ---- stubs for the rest of the heap layer ---- */

void ps_medium_flush(struct ps_heap *heap) { (void)heap; }

/* ---- the threads ---- */

/* Within a call, as all below. */
static void attach(struct ps_heap *heap) {
    ps_thread_enter();
    ps_thread.own = heap;
    ps_thread.heap = heap;
    ps_thread.fast_limit = PS_FEW_BYTES + 1;
    ps_thread.key = ps_heap_key(heap);
}

static void set_up_blocks(uint16_t blocks) {
    world_begin(blocks, 1);
    owner = ps_heap_make();
    for (size_t i = 0; i < EXPLORE_THREADS; i++) {
        others[i] = ps_heap_make();
    }
    span = world_full_span(ps_heap_key_of(owner, 0));
    owner->x_spans[0] = 1;
    ps_thread_enter();
    ps_heap_span_gained(owner, span);
}

static void set_up(void) { set_up_blocks(2); }

static void set_up_one(void) { set_up_blocks(1); }

static void set_up_two(void) {
    set_up_one();
    spans[0] = span;
    spans[1] = world_full_span(ps_heap_key_of(owner, 0));
    owner->x_spans[0]++;
    ps_heap_span_gained(owner, spans[1]);
}

/* The owner caches another, drained span. */
static void set_up_keeping(void) {
    set_up();
    struct ps_span *kept = world_full_span(ps_heap_key_of(owner, 0));
    owner->x_spans[0]++;
    ps_span_reset(kept);
    ps_heap_span_gained(owner, kept);
}

static void set_up_parked(void) {
    set_up();
    attach(owner);
    ps_heap_give_up();
}

static void give_to_orphans(void) {
    owner->x_spans[0] = 0;
    ps_orphans_add(span, false);
}

static void hand(size_t index) {
    void *block = world_block(span, index);
    ps_remote_handed(span, ps_span_hand_list(span, block, block, 1));
}

/* The heap has one block of the span, the other is back, and the notice of it has arrived. */
static void set_up_noticed(void) {
    set_up();
    hand(1);
    ps_steal_note_back(owner);
}

static void set_up_orphan(void) {
    set_up();
    give_to_orphans();
}

/* Block 0 is on its list. */
static void set_up_roomy_orphan(void) {
    set_up_blocks(3);
    void *block = world_block(span, 0);
    ps_span_link_blocks(span, block, 1);
    ps_span_give_list(span, block, block, 1);
    give_to_orphans();
}

static void set_up_orphan_of_one(void) {
    set_up_one();
    give_to_orphans();
}

static void hand_two_spans(void) {
    for (unsigned i = 0; i < 2; i++) {
        void *block = world_block(spans[i], 0);
        ps_remote_handed(spans[i], ps_span_hand_list(spans[i], block, block, 1));
    }
}

static void hand_0(void) { hand(0); }

static void hand_1(void) { hand(1); }

static void hand_2(void) { hand(2); }

static void hand_2_adopting(void) {
    attach(others[0]);
    hand(2);
}

static void hand_both(void) {
    hand(0);
    hand(1);
}

/* On a thread that would adopt the span. */
static void hand_0_adopting(void) {
    attach(others[0]);
    hand(0);
}

static void owner_ends(void) {
    attach(owner);
    ps_heap_give_up();
}

static void *adopted_block;

/* False when all memory is out. */
static bool allocate(struct ps_heap *heap) {
    attach(heap);
    adopted_block = ps_heap_take(heap, 0, WORLD_BLOCK_BYTES);
    ps_thread_enter();
    if (adopted_block != NULL) {
        explore_use(adopted_block, WORLD_BLOCK_BYTES);
    }
    return adopted_block != NULL;
}

/* The owner gives the span away, another heap uses all of it, and it returns to that heap. */
static void owner_changes(void) {
    void *block = world_block(span, 0);
    attach(owner);
    ps_span_link_blocks(span, block, 1);
    ps_span_give_list(span, block, block, 1);
    ps_heap_span_gained(owner, span);
    ps_heap_give_up();
    ps_thread.is_exiting = 0;
    bool is_full = allocate(others[0]) && allocate(others[0]) && allocate(others[0]);
    if (is_full && ps_heap_of_key(ps_load_relaxed(&span->x_owner)) == others[0]) {
        hand(0);
        hand(1);
    }
}

static void owner_collects(void) {
    attach(owner);
    ps_heap_take_notices(owner);
}

static void owner_collects_twice(void) {
    owner_collects();
    owner_collects();
}

static void owner_collects_and_ends(void) {
    owner_collects();
    ps_heap_give_up();
}

static void steal(void) {
    attach(others[2]);
    (void)ps_steal_from_candidate(others[2]);
}

/* A new thread, which may get the heap of an ended one. */
static void thread_starts(void) {
    struct ps_heap *heap = ps_heap_make();
    EXPLORE_ASSERT(heap != NULL && ps_load_relaxed(&heap->x_spans[0]) == 0);
}

static void refill(void) { EXPLORE_ASSERT(allocate(others[2])); }

/* As a purge, which writes the list of free blocks again. */
static void purge(void) {
    bool is_last;
    struct ps_span *idle = ps_orphans_take_idle(0, 0, 0, &is_last);
    if (idle != NULL) {
        for (void *block = idle->free; !ps_link_is_end(block);) {
            void *next = ps_link_of(block, idle->salt);
            ps_link_write(block, next, idle->salt);
            block = next;
        }
        ps_orphans_return(idle, true);
    }
}

static void refill_and_end(void) {
    refill();
    ps_heap_give_up();
}

/* ---- what must hold ---- */

static bool is_released(void) { return span->run.kind == PS_RUN_FREE; }

static void no_notice_is_left(struct ps_heap *heap) {
    if (heap->x_state == PS_HEAP_LIVE) {
        attach(heap);
        ps_heap_take_all_notices(heap);
        attach(NULL);
    }
    EXPLORE_ASSERT(heap->x_notices == NULL && heap->x_notices_rest == NULL);
}

/* The span was not released: its owner lives and has all its blocks. 1: the owner knows; 2: it does
 * not, because some were returned while it armed the notice, and not all were transferred (see
 * span_remote.h). */
static void owner_has_all(void) {
    uintptr_t key = span->x_owner;
    EXPLORE_ASSERT(key > PS_KEY_ORPHAN && ps_heap_of_key(key)->x_state == PS_HEAP_LIVE);
    explore_outcome(span->used == 0 ? 1 : 2);
    for (int i = 0; i < 2 && span->used != 0; i++) {
        ps_span_settle(span);
        (void)ps_span_collect(span);
    }
    world_check_all_free(span);
}

/* Every live heap collects once more. */
static void all_back(void) {
    no_notice_is_left(owner);
    for (size_t i = 0; i < EXPLORE_THREADS; i++) {
        no_notice_is_left(others[i]);
    }
    if (is_released()) {
        EXPLORE_ASSERT(world_given() == ALL_GRANULES);
        explore_outcome(0);
    } else {
        owner_has_all();
        EXPLORE_ASSERT(ps_heap_of_key(span->x_owner)->x_spans[0] == 1);
    }
}

/* As all_back, where the owner has another span. */
static void all_back_or_kept(void) {
    no_notice_is_left(owner);
    EXPLORE_ASSERT(owner->x_spans[0] == ALL_GRANULES - world_given());
    if (is_released()) {
        explore_outcome(0);
    } else {
        owner_has_all();
    }
}

static void all_released(void) {
    all_back();
    EXPLORE_ASSERT(is_released() && owner->x_state == PS_HEAP_PARKED && owner->x_spans[0] == 0);
    EXPLORE_ASSERT(owner->is_offered);
}

static void all_released_or_taken(void) {
    all_back();
    EXPLORE_ASSERT(owner->x_spans[0] == 0);
    EXPLORE_ASSERT(owner->is_offered == (owner->x_state == PS_HEAP_PARKED));
}

/* The adopter uses a block of some span, and has all others. */
static void all_but_one_back(void) {
    struct ps_span *current = ps_span_at(adopted_block);
    EXPLORE_ASSERT(ps_heap_of_key(current->x_owner) == others[2]);
    attach(others[2]);
    ps_heap_take_all_notices(others[2]);
    ps_heap_empty_bin(others[2], 0);
    attach(NULL);
    EXPLORE_ASSERT(current->used == 1 && ps_orphans_count() == 0);
    EXPLORE_ASSERT(others[2]->x_spans[0] == ALL_GRANULES - world_given());
    if (current == span) {
        explore_outcome(3);
    } else if (is_released()) {
        explore_outcome(0);
    } else {
        owner_has_all();
    }
}

/* The span was released, or is an orphan with all its blocks, or has been adopted. */
static void all_purged(void) {
    no_notice_is_left(others[0]);
    if (is_released() || span->x_owner != PS_KEY_ORPHAN) {
        all_back();
        return;
    }
    explore_outcome(3);
    EXPLORE_ASSERT(ps_orphans_count() == 1 && !ps_span_is_queued(span));
    EXPLORE_ASSERT(ps_orphans_adopt(0, ps_heap_key_of(owner, 0), true) == span);
    ps_span_settle(span);
    (void)ps_span_collect(span);
    EXPLORE_ASSERT(span->used == 0 || ps_span_remote_blocks(span) == span->used);
}

/* Each heap counts its spans; the stealing thread may have adopted one. */
static void owners_count(void) {
    no_notice_is_left(others[0]);
    no_notice_is_left(others[2]);
    uint32_t counted = others[0]->x_spans[0] + others[2]->x_spans[0];
    EXPLORE_ASSERT(owner->x_spans[0] == 0 && owner->is_offered);
    EXPLORE_ASSERT(counted + ps_orphans_count() == ALL_GRANULES - world_given());
    explore_outcome(is_released() ? 0 : 1);
}

/* The adopter has ended: it had the span, or the span was released. */
static void adopter_released(void) {
    no_notice_is_left(others[2]);
    EXPLORE_ASSERT(ps_span_at(adopted_block) == span || is_released());
    explore_outcome(ps_span_at(adopted_block) == span ? 3 : 0);
}

/* Two spans, each released, or found by the owner. */
static void both_back(void) {
    no_notice_is_left(owner);
    steal(); /* completes a steal that was begun */
    attach(NULL);
    no_notice_is_left(owner);
    for (unsigned i = 0; i < 2; i++) {
        if (spans[i]->run.kind == PS_RUN_FREE) {
            continue;
        }
        EXPLORE_ASSERT(spans[i]->used == 0);
        world_check_all_free(spans[i]);
    }
    EXPLORE_ASSERT(owner->x_spans[0] == ALL_GRANULES - world_given());
    explore_outcome(world_given());
}

/* An idle owner that does not know of a span is found by the next walk over idle owners. */
static void noted_or_known(void) {
    EXPLORE_ASSERT(owner->x_notices == NULL || owner->x_back != 0);
    both_back();
}

const struct explore_scenario explore_scenarios[] = {
    {"owner_collects", set_up, {owner_collects, hand_0, hand_1}, all_back, false},
    {"owner_ends", set_up_one, {owner_ends, hand_0}, all_released, false},
    {"owner_ends_stolen", set_up_one, {owner_ends, hand_0, steal}, all_released_or_taken, false},
    {"owner_ended", set_up_parked, {hand_0_adopting, hand_1}, all_released_or_taken, false},
    {"owner_stolen", set_up, {owner_collects, hand_both, steal}, all_back, false},
    {"rest_stolen", set_up_two, {owner_collects, hand_two_spans, steal}, noted_or_known, false},
    {"owner_keeps", set_up_keeping, {owner_collects_twice, hand_both}, all_back_or_kept, false},
    {"orphan_notified", set_up_orphan, {hand_0_adopting, hand_1}, all_back, false},
    {"orphan_adopted", set_up_orphan, {refill, hand_both}, all_but_one_back, false},
    {"adopter_ends", set_up_orphan_of_one, {refill_and_end, hand_0}, adopter_released, false},
    {"orphan_purged", set_up_roomy_orphan, {purge, hand_1, hand_2_adopting}, all_purged, false},
    {"owner_changes", set_up_noticed, {owner_changes, steal}, owners_count, false},
    {"heap_reused", set_up_parked, {hand_both, thread_starts}, all_released_or_taken, false},
    {"owner_ends_both_return", set_up, {owner_ends, hand_both}, all_released, true},
    {"owner_collects_and_ends", set_up, {owner_collects_and_ends, hand_both}, all_released, true},
    {"owner_ends_two_return", set_up, {owner_ends, hand_0, hand_1}, all_released, true},
    {"owner_ends_adopted",
     set_up,
     {owner_ends, hand_0_adopting, hand_1},
     all_released_or_taken,
     true},
    {"two_steals", set_up, {owner_collects, hand_both, steal, steal}, all_back, true},
    {"orphan_contended", set_up_orphan, {refill, hand_0, hand_1}, all_but_one_back, true},
    {NULL, NULL, {NULL}, NULL, false},
};
