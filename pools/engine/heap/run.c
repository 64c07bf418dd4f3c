/* SPDX-License-Identifier: MIT */
/*
 * Hot runs: see struct ps_thread in heap.h. Called by the owner of the heap only. No locks.
 *
 * The block that opens a run counts as used and is on no list, so while a run is open its span
 * cannot drain, and no address can come to mean another block.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/hard.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/misuse.h"
#include "pools/engine/small/span_remote.h"

#include <string.h>

/* Runs shorter than this cost more than they saved; their span is asked less often. */
#define RUN_WORTH_BLOCKS 16

/* Whether none of the blocks that a run would go on to is free: it would take that one for a block
 * that is freed for the first time. Read in order, where the program will read them next. */
static bool is_clear(const struct ps_span *span, const char *newest, ptrdiff_t step) {
    uintptr_t salt = ps_load_relaxed(&span->salt); /* relaxed: we have a block of the span */
    const char *begin = ps_span_block(span, span->first);
    size_t bytes = ps_span_capacity(span) * span->block_bytes;
    const char *block = newest + step;
    while ((size_t)(block - begin) < bytes && !ps_span_is_unhanded(span, block)) {
        if (PS_UNLIKELY(ps_link_is_near(block, ps_link_of(block, salt)) &&
                        ps_span_is_listed(span, block))) {
            return false;
        }
        block += step;
    }
    return true;
}

ptrdiff_t ps_run_step_of(const struct ps_span *span, void *newest) {
    char *first = newest;
    uintptr_t salt = ps_load_relaxed(&span->salt); /* relaxed: we have a block of the span */
    char *second = ps_link_of(first, salt);
    if (!span->can_run || ps_link_is_end(second) || !ps_link_is_near(first, second)) {
        return 0;
    }
    char *third = ps_link_of(second, salt);
    ptrdiff_t step = first - second;
    bool is_sequence = step == second - third && (step == (ptrdiff_t)span->block_bytes ||
                                                  -step == (ptrdiff_t)span->block_bytes);
    if (ps_link_is_end(third) || !is_sequence) {
        return 0;
    }
    return ps_hard_level == 0 || is_clear(span, newest, step) ? step : 0;
}

void ps_run_open(struct ps_heap *heap, struct ps_span *span, void *block, ptrdiff_t step) {
    ps_run_close(heap);
    heap->run_span = span;
    heap->run_first = block;
    ps_thread.run_next = (char *)block + step;
    ps_thread.run_step = step;
}

/* Zeroes blocks of a list behind their links. */
static void wipe_linked(const struct ps_span *span, char *lowest, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        uintptr_t *block = (uintptr_t *)(lowest + i * span->block_bytes);
        uintptr_t link = *block;
        ps_wipe(block, span->block_bytes);
        *block = link;
    }
}

/* Where blocks are hardened no run is left without links, by which a second free of one of its
 * blocks is found, unless its span is done with. Blocks that another thread has freed, too, are
 * found before they are zeroed. */
static void give_zeroed(struct ps_heap *heap, struct ps_span *span, char *lowest, size_t blocks) {
    char *last = lowest + (blocks - 1) * span->block_bytes;
    /* relaxed: equal only if this thread wrote it. */
    bool is_own = ps_load_relaxed(&span->x_owner) == ps_heap_key(heap);
    if (is_own && span->place != PS_PLACE_CURRENT && span->used == blocks) {
        memset(lowest, 0, blocks * span->block_bytes);
        ps_span_give_run(span, lowest, blocks);
        ps_heap_span_gained(heap, span);
        return;
    }
    ps_span_link_run(span, lowest, blocks);
    wipe_linked(span, lowest, blocks);
    if (is_own) {
        ps_span_give_list(span, lowest, last, blocks);
        ps_heap_span_gained(heap, span);
        return;
    }
    ps_owner_add(&heap->x_remote_frees, blocks);
    ps_owner_add(&heap->x_remote_batches, 1);
    ps_remote_handed(span, ps_span_hand_list(span, lowest, last, blocks));
}

void ps_run_close(struct ps_heap *heap) {
    struct ps_span *span = heap->run_span;
    if (span == NULL) {
        return;
    }
    ptrdiff_t step = ps_thread.run_step;
    char *lowest = step > 0 ? heap->run_first : ps_thread.run_next - step;
    size_t blocks = (size_t)((ps_thread.run_next - heap->run_first) / step);
    char *highest = step > 0 ? ps_thread.run_next - step : heap->run_first;
    if (PS_UNLIKELY(ps_span_is_unhanded(span, highest))) {
        ps_misuse_free(span, highest);
    }
    heap->run_span = NULL;
    ps_thread.run_next = NULL;
    ps_thread.run_step = 0;
    if (PS_UNLIKELY(ps_hard_level == PS_HARD_ZEROES)) {
        give_zeroed(heap, span, lowest, blocks);
        return;
    }
    /* relaxed: equal only if this thread wrote it. */
    if (ps_load_relaxed(&span->x_owner) == ps_heap_key(heap)) {
        if (blocks < RUN_WORTH_BLOCKS) {
            span->interval = (uint16_t)ps_min((size_t)span->interval * 4, PS_INTERVAL_LIMIT);
        }
        ps_span_give_run(span, lowest, blocks);
        ps_heap_span_gained(heap, span);
        return;
    }
    ps_owner_add(&heap->x_remote_frees, blocks);
    ps_owner_add(&heap->x_remote_batches, 1);
    ps_remote_handed(span, ps_span_hand_run(span, lowest, blocks));
}
