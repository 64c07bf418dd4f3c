/* SPDX-License-Identifier: MIT */
/*
 * See free_list.h.
 *
 * The block that opens a streak counts as used and is on no list, so while the streak is open its
 * span cannot drain, and no address can become another block's.
 */
#include "pools/engine/heap/free_list.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/confirm.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/small/link.h"
#include "pools/engine/small/span_remote.h"

/* Shorter streaks cost more than they save; their span is probed less often. */
#define STREAK_LEAST_BLOCKS 16

void *ps_heap_next(const struct ps_span *list, void *block) {
    void *next = ps_link_of(block, ps_load_relaxed(&list->salt)); /* relaxed: see link.h */
    if (PS_UNLIKELY(!ps_link_is_near(block, next) && !ps_span_leads_to(list, next))) {
        ps_misuse_link(block, list->block_bytes);
    }
    return next;
}

PS_NOINLINE void *ps_heap_pop(struct ps_span *source) {
    void *block = source->free;
    source->free = ps_heap_next(source, block);
    ps_link_clear(block);
    ps_counter_up(&source->popped);
    return block;
}

PS_NOINLINE void *ps_heap_pop_last(struct ps_span *source) {
    void *block = ps_heap_pop(source);
    ps_thread_leave();
    return block;
}

bool ps_heap_is_free(const struct ps_span *span, const void *block) {
    if (ps_span_is_unhanded(span, block) || ps_link_is_marked(block)) {
        return true;
    }
    return ps_span_is_listed(span, block) && ps_confirm_is_listed(span, block);
}

/* ---- free streaks ---- */

ptrdiff_t ps_streak_step_of(const struct ps_span *span, void *newest) {
    char *first = newest;
    uintptr_t salt = ps_load_relaxed(&span->salt); /* relaxed: the caller has a block of the span */
    char *second = ps_link_of(first, salt);
    if (!span->has_streaks || ps_link_is_end(second) || !ps_link_is_near(first, second)) {
        return 0;
    }
    char *third = ps_link_of(second, salt);
    ptrdiff_t step = first - second;
    bool is_sequence = step == second - third && (step == (ptrdiff_t)span->block_bytes ||
                                                  -step == (ptrdiff_t)span->block_bytes);
    if (ps_link_is_end(third) || !is_sequence) {
        return 0;
    }
    bool is_refused =
        ps_mode.hook.may_open_streak != NULL && !ps_mode.hook.may_open_streak(span, newest, step);
    return is_refused ? 0 : step;
}

void ps_streak_open(struct ps_heap *heap, struct ps_span *span, void *block, ptrdiff_t step) {
    ps_streak_close(heap);
    heap->streak_span = span;
    heap->streak_first = block;
    ps_thread.streak_step = step;
    ps_store_relaxed(&ps_thread.streak_next, (char *)block + step); /* relaxed: see thread.c */
}

void ps_plain_return_streak(struct ps_heap *heap, struct ps_span *span, char *lowest,
                            size_t blocks) {
    /* relaxed: equal only if this thread wrote it. */
    if (ps_load_relaxed(&span->x_owner) == ps_heap_key(heap)) {
        if (blocks < STREAK_LEAST_BLOCKS) {
            span->probe_interval =
                (uint16_t)ps_min((size_t)span->probe_interval * 4, PS_STREAK_PROBE_LIMIT);
        }
        ps_bin_count(heap, span);
        ps_span_return_blocks(span, lowest, blocks);
        ps_heap_span_gained(heap, span);
        return;
    }
    ps_owner_add(&heap->x_remote_frees, blocks);
    ps_owner_add(&heap->x_remote_batches, 1);
    ps_remote_handed(span, ps_span_transfer_blocks(span, lowest, blocks));
}

void ps_streak_close(struct ps_heap *heap) {
    if (heap->streak_span == NULL) {
        return;
    }
    char *next = ps_thread.streak_next;
    ptrdiff_t step = ps_thread.streak_step;
    ps_store_relaxed(&ps_thread.streak_next, (char *)NULL); /* relaxed: this thread's own */
    ps_thread.streak_step = 0;
    ps_streak_book(heap, next, step);
}

void ps_streak_book(struct ps_heap *heap, char *next, ptrdiff_t step) {
    struct ps_span *span = heap->streak_span;
    if (span == NULL) {
        return;
    }
    char *lowest = step > 0 ? heap->streak_first : next - step;
    size_t blocks = (size_t)((next - heap->streak_first) / step);
    char *highest = step > 0 ? next - step : heap->streak_first;
    if (PS_UNLIKELY(ps_span_is_unhanded(span, highest))) {
        ps_misuse_free(span, highest);
    }
    heap->streak_span = NULL;
    ps_mode.hook.return_streak(heap, span, lowest, blocks);
}
