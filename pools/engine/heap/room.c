/* SPDX-License-Identifier: MIT */
/*
 * The spans with room of a heap, per class, and the bound on them. When the free part of a class in
 * one heap exceeds a quarter of its live part, and one span, the emptiest spans become orphans
 * (small/orphans.h), which every heap adopts before it takes fresh memory (Hoard's invariant;
 * Berger et al. 2000). Memory then follows the live blocks, not the sum of all threads' peaks.
 *
 * Free parts are counted in eighths of a span, at the last event of each and at the scan that
 * applies the bound, four times a second, to spans of which half is free; a fuller one moves to the
 * tail of its list, so that the next scan examines others. It is not applied at the free itself:
 * the live blocks of an orphaned span are freed by remote frees later, which cost more, and a
 * program that frees a table in random order has all its spans half empty at the same time.
 * Orphaning spans that were half free at their events took the free of a million blocks of 48 bytes
 * from 27 to 57 ns each, seven eighths free to 34.
 *
 * Processes with one heap are exempt. Called by the owner of the heap. Locks: the orphan lock.
 */
#include "pools/engine/heap/room.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

#define EIGHTHS 8
#define KEPT_EIGHTHS EIGHTHS        /* one span's worth is within the bound */
#define EMPTY_EIGHTHS (EIGHTHS / 2) /* free part at which a span is orphaned */
#define SCAN_SPANS 256 /* spans examined per scan, counted per class: bounds its time */

uint32_t ps_room_x_is_shared;

static void count(struct ps_heap *heap, struct ps_span *span, uint32_t eighths) {
    PS_CHECK(ps_thread_is_inside());
    heap->room[span->class_index] += eighths - span->room;
    span->room = (uint8_t)eighths;
}

/* Counts free blocks, and remote frees that are not collected yet. */
static uint32_t eighths_of(const struct ps_span *span) {
    uint32_t capacity = (uint32_t)ps_span_capacity(span);
    uint32_t blocks = capacity - span->used + (uint32_t)ps_span_remote_blocks(span);
    return blocks * EIGHTHS / capacity;
}

void ps_room_enter(struct ps_heap *heap, struct ps_span *span) {
    struct ps_span **list = &heap->available[span->class_index];
    struct ps_span *tail = *list != NULL ? ps_span_list_tail(*list) : NULL;
    /* Keep a drained span last, unless this one has drained too: a walk over a list that ends with
     * sparse spans would otherwise never end. */
    bool is_kept = tail != NULL && tail->used == 0 && span->used != 0;
    if (is_kept) {
        ps_span_list_remove(list, tail);
    }
    span->place = PS_PLACE_AVAILABLE;
    ps_span_list_push_tail(list, span);
    if (is_kept) {
        ps_span_list_push_tail(list, tail);
    }
    count(heap, span, eighths_of(span));
}

void ps_room_leave(struct ps_heap *heap, struct ps_span *span) {
    ps_span_list_remove(&heap->available[span->class_index], span);
    count(heap, span, 0);
}

void ps_room_orphan(struct ps_heap *heap, struct ps_span *span) {
    ps_add_relaxed(&heap->x_spans[span->class_index], (uint32_t)-1); /* relaxed: a count */
    ps_orphans_add(span, false);
}

/* True when the free part exceeds the bound, which is lower while memory is short. */
static bool is_too_much(const struct ps_heap *heap, uint32_t class_index) {
    uint32_t room = heap->room[class_index];
    /* relaxed: a count. */
    uint32_t all = ps_load_relaxed(&heap->x_spans[class_index]) * EIGHTHS;
    return room > ps_retention_amount(KEPT_EIGHTHS) &&
           room > ps_retention_amount((all - ps_min(all, room)) / 4);
}

/* Counts the remote frees of available spans since their last events: up to nearly half of the used
 * blocks return without a notice. */
static void count_class(struct ps_heap *heap, uint32_t class_index) {
    struct ps_span *span = heap->available[class_index];
    for (int left = SCAN_SPANS; span != NULL && left > 0; left--) {
        count(heap, span, eighths_of(span));
        span = ps_span_list_next(span);
    }
}

/* Examines the oldest available spans of a class while its room exceeds the bound. Returns the
 * remaining number of spans to examine. */
static uint32_t scan_class(struct ps_heap *heap, uint32_t class_index, uint32_t left) {
    while (left > 0 && is_too_much(heap, class_index)) {
        struct ps_span *span = heap->available[class_index];
        if (span == NULL || span->used == 0) {
            break; /* drained spans are cached and released separately */
        }
        left--;
        ps_span_settle(span);
        ps_room_leave(heap, span);
        if (span->used != 0 && eighths_of(span) >= EMPTY_EIGHTHS) {
            ps_room_orphan(heap, span);
        } else {
            ps_room_enter(heap, span);
        }
    }
    return left;
}

void ps_room_gained(struct ps_heap *heap, struct ps_span *span) {
    count(heap, span, eighths_of(span));
}

void ps_room_scan(struct ps_heap *heap) {
    uint32_t left = SCAN_SPANS;
    bool is_shared = ps_load_relaxed(&ps_room_x_is_shared) != 0; /* relaxed: a hint */
    for (uint32_t i = 0; is_shared && i < ps_size_class_count; i++) {
        count_class(heap, i);
        left = scan_class(heap, i, left);
    }
}
