/* SPDX-License-Identifier: MIT */
/*
 * See bin_return.h.
 */
#include "pools/engine/heap/bin_return.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

/* Returns all but the next `kept` blocks of the bin's window to the span. */
static void return_window(struct ps_bin *bin, struct ps_span *span, size_t kept) {
    size_t blocks = ps_bin_window_blocks(bin);
    if (blocks > kept) {
        ps_owner_add(&span->carved, kept - blocks);
        ps_owner_add(&span->used, kept - blocks);
        ps_owner_add(&bin->x_taken, kept - blocks);
        ps_span_settle(span);
        bin->end = bin->cur + kept * span->block_bytes;
    }
}

/* Moves all but the newest `kept` blocks of a settled span's list to its stash. */
static void keep_newest(struct ps_span *span, size_t kept) {
    void *last = NULL;
    void *rest = span->free;
    for (size_t i = 0; i < kept; i++) {
        last = rest;
        rest = ps_heap_next(span, last);
    }
    if (!ps_link_is_end(span->stash)) {
        void *tail = rest;
        for (size_t i = kept + 1; i < span->free_count; i++) {
            tail = ps_heap_next(span, tail);
        }
        ps_link_write(tail, span->stash, span->salt);
    }
    span->stash = rest;
    span->stash_count = (uint16_t)(span->stash_count + span->free_count - kept);
    span->free_count = (uint16_t)kept;
    if (last != NULL) {
        ps_link_write(last, ps_span_list_end(span), span->salt);
    } else {
        span->free = ps_span_list_end(span);
    }
}

size_t ps_bin_blocks(const struct ps_heap *heap, uint32_t class_index) {
    const struct ps_bin *bin = &heap->bins[class_index];
    const struct ps_span *source = heap->current[class_index];
    size_t listed = source->free_count + (size_t)ps_span_unsettled_blocks(source);
    return listed + ps_bin_window_blocks(bin);
}

void ps_bin_shorten(struct ps_heap *heap, uint32_t class_index, size_t kept) {
    struct ps_bin *bin = &heap->bins[class_index];
    struct ps_span *source = heap->current[class_index];
    if (source == &ps_span_none) {
        return;
    }
    size_t listed = source->free_count;
    if (listed > kept) {
        keep_newest(source, kept);
    }
    return_window(bin, source, kept - ps_min(kept, listed));
}

/* Takes the current span out of its bin, with all its blocks. NULL: there is none. */
static struct ps_span *leave_bin(struct ps_heap *heap, uint32_t class_index) {
    struct ps_bin *bin = &heap->bins[class_index];
    struct ps_span *span = heap->current[class_index];
    if (span == &ps_span_none) {
        return NULL;
    }
    heap->current[class_index] = &ps_span_none;
    span->place = PS_PLACE_AVAILABLE; /* before it is settled: see ps_span_settle */
    ps_bin_settle(bin, span);
    return_window(bin, span, 0);
    bin->cur = NULL;
    bin->end = NULL;
    return span;
}

void ps_heap_empty_bin(struct ps_heap *heap, uint32_t class_index) {
    ps_mode.hook.flush_class(heap, class_index);
    struct ps_span *span = leave_bin(heap, class_index);
    if (span != NULL) {
        ps_room_enter(heap, span);
        ps_span_collect(span);
        ps_heap_span_gained(heap, span);
    }
}

/* Orphans the available spans of a class. Returns false if some are left. */
static bool orphan_available(struct ps_heap *heap, uint32_t class_index, uint32_t *spans) {
    for (struct ps_span *span; (span = heap->available[class_index]) != NULL; --*spans) {
        if (*spans == 0) {
            return false;
        }
        ps_room_leave(heap, span);
        ps_room_orphan(heap, span);
    }
    return true;
}

/* Empties all bins and orphans available spans. Returns false if some spans are left. */
static bool orphan_all(struct ps_heap *heap, uint32_t *spans) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_heap_empty_bin(heap, i);
        if (!orphan_available(heap, i, spans)) {
            return false;
        }
    }
    return true;
}

bool ps_heap_clear_out(struct ps_heap *heap, char *streak_next, ptrdiff_t streak_step,
                       uint32_t *spans) {
    /* First the steps that may add spans of any class; a tick would repeat them. */
    heap->tick_countdown = UINT32_MAX;
    ps_streak_book(heap, streak_next, streak_step);
    ps_mode.hook.thread_end(heap); /* before the next: the mode may have other owners' blocks */
    ps_remote_flush(heap);
    ps_heap_take_all_notices(heap);
    return orphan_all(heap, spans);
}
