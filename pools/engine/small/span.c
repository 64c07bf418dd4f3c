/* SPDX-License-Identifier: MIT */
/*
 * See span.h. All functions are called by the span's owner, or under the orphan lock.
 */
#include "pools/engine/small/span.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/span_remote.h"

/* Shorter returns become single blocks on the list, where a double free is detected; longer ones
 * become a gap, whose memory is not touched. */
#define GAP_LEAST_BLOCKS 512

static void set_used(struct ps_span *span, size_t used) {
    ps_store_relaxed(&span->used, (uint16_t)used); /* relaxed: census needs a snapshot only */
}

PS_COLD void ps_span_corrupt(const struct ps_span *span, const char *what) {
    ps_fatal_block(what, span->run.base, span->block_bytes);
}

void ps_span_check(const struct ps_span *span) {
    if (span->free_countdown == span->countdown_start && span->popped == 0) {
        PS_CHECK((size_t)span->used + span->free_count + span->stash_count + span->gap_blocks +
                     (size_t)(span->limit - span->carved) ==
                 ps_span_capacity(span));
    }
}

/* Makes the inside slots of a longer span lead to its head. */
static void mark_inside(struct ps_span *span) {
    for (uint32_t i = 1; i < span->run.granules; i++) {
        struct ps_run *run = &ps_page_map_slot(span->run.base + i * PS_GRANULE_BYTES)->run;
        /* relaxed, both: as x_owner below */
        ps_store_relaxed(&run->back, (uint16_t)i);
        ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_INSIDE);
    }
}

static void unmark_inside(struct ps_span *span) {
    for (uint32_t i = 1; i < span->run.granules; i++) {
        struct ps_run *run = &ps_page_map_slot(span->run.base + i * PS_GRANULE_BYTES)->run;
        /* relaxed, both: free() only classifies by them */
        ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE);
        ps_store_relaxed(&run->back, (uint16_t)0);
    }
}

static void give_run(struct ps_span *span) {
    if (PS_UNLIKELY(span->lent_at != 0)) {
        ps_medium_take_back(&span->run, span->lent_at);
    } else {
        ps_page_cache_give(&span->run);
    }
}

/* lent_at is set. */
static struct ps_span *create_at(struct ps_run *run, uint32_t class_index, uintptr_t owner_key,
                                 bool is_sparse) {
    const struct ps_size_class *class = &ps_size_classes[class_index];
    struct ps_span *span = ps_span_of_slot(ps_slot_of_run(run));
    span->block_bytes = class->block_bytes;
    span->class_index = (uint8_t)class_index;
    span->has_streaks = class->has_streaks;
    span->probe_interval = class->streak_probe_interval;
    span->place = PS_PLACE_CURRENT;
    span->run.prev = NULL;
    span->run.next = NULL;
    span->factor = class->factor;
    ps_store_relaxed(&span->x_owner_detached, (uint8_t)0);
    span->room = 0;
    ps_store_relaxed(&span->x_remote, (uint64_t)0); /* relaxed: no other thread has a block yet */
    ps_span_reset(span);
    if (PS_UNLIKELY(!ps_span_open(span, is_sparse))) {
        ps_span_shut(span);
        give_run(span);
        return NULL;
    }
    ps_store_relaxed(&span->carved, span->first); /* relaxed: a snapshot for the census */
    span->is_zero = !run->is_dirty;
    mark_inside(span);
    /* release: pairs with walks over all slots, which may find a span without having a block of
     * it. */
    ps_store_release(&run->kind, (uint8_t)PS_RUN_SPAN);
    ps_span_set_owner(span, owner_key);
    return span;
}

static struct ps_span *create_in(struct ps_run *run, uint32_t class_index, uintptr_t owner_key,
                                 bool is_sparse) {
    if (run == NULL) {
        return NULL;
    }
    ps_span_of_run(run)->lent_at = 0;
    return create_at(run, class_index, owner_key, is_sparse);
}

void ps_span_set_owner(struct ps_span *span, uintptr_t key) {
    ps_store_release(&span->x_owner, key); /* release: see span.h. */
}

struct ps_span *ps_span_create(uint32_t class_index, uintptr_t owner_key) {
    return create_in(ps_page_cache_take(ps_size_classes[class_index].granules, 1), class_index,
                     owner_key, false);
}

struct ps_span *ps_span_create_clean(uint32_t class_index, uintptr_t owner_key) {
    return create_in(ps_page_cache_take_clean(ps_size_classes[class_index].granules), class_index,
                     owner_key, false);
}

struct ps_span *ps_span_create_sparse(uint32_t class_index, uintptr_t owner_key) {
    return create_in(ps_page_cache_take(ps_size_classes[class_index].granules, 1), class_index,
                     owner_key, true);
}

struct ps_span *ps_span_create_dense(uint32_t class_index, uintptr_t owner_key) {
    return create_in(ps_page_cache_take_dense(ps_size_classes[class_index].granules), class_index,
                     owner_key, false);
}

PS_COLD struct ps_span *ps_span_create_lent(uint32_t class_index, uintptr_t owner_key) {
    size_t at;
    struct ps_run *run = ps_medium_lend(ps_size_classes[class_index].granules, &at);
    if (run == NULL) {
        return NULL;
    }
    ps_span_of_run(run)->lent_at = at & (PS_MEDIUM_GRANULES - 1);
    return create_at(run, class_index, owner_key, false);
}

void ps_span_reset(struct ps_span *span) {
    span->free = ps_span_list_end(span);
    span->stash = ps_span_list_end(span);
    span->free_count = 0;
    span->stash_count = 0;
    span->gap_head = 0;
    span->gap_blocks = 0;
    ps_store_relaxed(&span->carved, span->first); /* relaxed: a snapshot for the census */
    span->window_blocks = (uint16_t)ps_size_classes[span->class_index].window_blocks;
    span->is_zero = false;
    span->is_shared = 0;
    /* relaxed, both: other threads read them only while they have a block of the span, and none is
     * out. In this order for the child of a fork: the links in blocks are of the old salt. */
    ps_store_relaxed(&span->handed, (uint32_t)span->first << PS_SCALED_SHIFT);
    ps_fence_program_order();
    ps_store_relaxed(&span->salt, ps_link_new_salt());
    set_used(span, 0);
    ps_store_relaxed(&span->popped, (uint16_t)0);          /* relaxed: as free_countdown below */
    ps_store_relaxed(&span->countdown_start, (uint16_t)1); /* relaxed: as the next */
    ps_store_relaxed(&span->free_countdown,
                     (uint16_t)1); /* relaxed: census needs a snapshot only */
}

void ps_span_reset_used(struct ps_span *span) {
    uintptr_t salt = span->salt;
    /* relaxed: written before the blocks below it left. Blocks from it on have old contents, which
     * the sweep at exit must not take for a write after free. */
    uint32_t handed = ps_load_relaxed(&span->handed);
    ps_span_reset(span);
    ps_store_relaxed(&span->carved, span->limit); /* relaxed: a snapshot for the census */
    set_used(span, ps_span_capacity(span));
    /* relaxed, both: blocks are out, but no other thread exists. */
    ps_store_relaxed(&span->salt, salt);
    ps_store_relaxed(&span->handed, handed);
}

void ps_span_destroy(struct ps_span *span) {
    PS_CHECK(span->used == 0);
    ps_span_set_owner(span, PS_KEY_NONE);
    ps_store_relaxed(&span->run.kind, (uint8_t)PS_RUN_BUSY);
    unmark_inside(span);
    ps_span_shut(span);
    give_run(span);
}

/* Number of frees until the owner's next settling. */
static size_t next_event(const struct ps_span *span) {
    if (span->place == PS_PLACE_CURRENT) {
        return span->probe_interval;
    }
    /* All blocks that are out, or half of them: see ps_span_notice_blocks. */
    size_t out = ps_span_out_blocks(span);
    size_t wait = ps_min(span->probe_interval, ps_max(span->is_shared ? (out + 1) / 2 : out, 1));
    return span->place == PS_PLACE_FULL ? ps_min(wait, ps_span_worth_blocks(span)) : wait;
}

void ps_span_settle(struct ps_span *span) {
    int back = ps_span_unsettled_blocks(span);
    uint16_t used =
        (uint16_t)(span->used - back); /* may be smaller than the number of popped blocks */
    if (PS_UNLIKELY(used > ps_span_capacity(span))) {
        ps_span_corrupt(span, PS_SPAN_TOO_MANY);
    }
    span->free_count = (uint16_t)(span->free_count + back);
    set_used(span, used);
    uint16_t wait = (uint16_t)next_event(span);
    /* relaxed, all three: census needs a snapshot only. */
    ps_store_relaxed(&span->popped, (uint16_t)0);
    ps_store_relaxed(&span->countdown_start, wait);
    ps_store_relaxed(&span->free_countdown, wait);
    ps_span_check(span);
}

void ps_span_give_list(struct ps_span *span, void *head, void *tail, size_t blocks) {
    ps_link_write(tail, span->free, span->salt);
    span->free = head;
    span->free_count = (uint16_t)(span->free_count + blocks);
    set_used(span, span->used - blocks);
    ps_span_settle(span);
}

void ps_span_link_blocks(const struct ps_span *span, char *lowest, size_t blocks) {
    char *next = ps_span_list_end(span);
    for (size_t i = blocks; i > 0; i--) {
        char *block = lowest + (i - 1) * span->block_bytes;
        if (PS_UNLIKELY(ps_link_is_near(block, ps_link_of(block, span->salt)) &&
                        ps_span_is_listed(span, block))) {
            ps_fatal_block(PS_SPAN_TWICE, block, span->block_bytes);
        }
        ps_link_write(block, next, span->salt);
        next = block;
    }
}

void ps_span_return_blocks(struct ps_span *span, char *lowest, size_t blocks) {
    bool is_drained = span->place != PS_PLACE_CURRENT && span->used == blocks;
    if (blocks < GAP_LEAST_BLOCKS && !is_drained) {
        ps_span_link_blocks(span, lowest, blocks);
        ps_span_give_list(span, lowest, lowest + (blocks - 1) * span->block_bytes, blocks);
        return;
    }
    struct ps_gap *gap = (struct ps_gap *)lowest;
    gap->next = span->gap_head;
    gap->blocks = (uint16_t)blocks;
    span->gap_head = (uint16_t)(ps_span_index(span, lowest) + 1);
    span->gap_blocks = (uint16_t)(span->gap_blocks + blocks);
    set_used(span, span->used - blocks);
    ps_span_settle(span);
}

struct ps_gap *ps_span_gap(const struct ps_span *span, size_t head) {
    size_t index = head - 1;
    struct ps_gap *gap = (struct ps_gap *)ps_span_block(span, index);
    if (PS_UNLIKELY(index < span->first || gap->blocks == 0 || index + gap->blocks > span->limit)) {
        ps_span_corrupt(span, PS_SPAN_BAD_GAP);
    }
    return gap;
}
