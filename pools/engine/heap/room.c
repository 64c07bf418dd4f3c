/* SPDX-License-Identifier: MIT */
/*
 * What a heap keeps: its spans with room, per class, and the bound on them. When more is free of a
 * class in one heap than a quarter of what is live there, and more than a span's worth, the
 * emptiest spans become orphans (small/orphans.h), which every heap takes before fresh memory
 * (Hoard's invariant; Berger et al. 2000). Memory then follows what is live, not the sum of what
 * each thread once had at its peak.
 *
 * How much is free is known in eighths of a span, as of the last event of each. The bound is held
 * at a scan, four times a second, for spans of which half is free; one that is fuller goes to the
 * tail of its list, so that the next scan looks at others. Not at the free itself: the blocks still
 * live in a span that is given up are freed the long way afterwards, by remote frees, and a program
 * that frees a table in random order has all its spans half empty at the same time. Giving up spans
 * that were half free at their events took the free of a million blocks of 48 bytes from 27 to 57
 * ns each, seven eighths free to 34.
 *
 * Not in classes with LIFO cache (lifo.c): those go home to spans that must be the heap's. Not
 * while there is one heap. Called by the owner of the heap. Locks: those of the orphan list.
 */
#include "pools/engine/heap/room.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_list.h"

#define EIGHTHS 8
#define KEPT_EIGHTHS EIGHTHS        /* a span's worth is not too much */
#define EMPTY_EIGHTHS (EIGHTHS / 2) /* free of a span that is given up */
#define SCAN_LOOKS 256              /* spans looked at in a scan, at most: bounds its time */

uint32_t ps_room_x_is_shared;

static void count(struct ps_heap *heap, struct ps_span *span, uint32_t eighths) {
    heap->room[span->class_index] += eighths - span->room;
    span->room = (uint8_t)eighths;
}

static uint32_t eighths_of(const struct ps_span *span) {
    uint32_t capacity = (uint32_t)ps_span_capacity(span);
    return (capacity - span->used) * EIGHTHS / capacity;
}

void ps_room_enter(struct ps_heap *heap, struct ps_span *span) {
    struct ps_span **list = &heap->available[span->class_index];
    struct ps_span *tail = *list != NULL ? ps_span_list_tail(*list) : NULL;
    /* A drained one, which stays the last, unless this one has drained, too: who goes over a list
     * that ends with sparse spans would meet them for ever. */
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
    ps_orphans_add(span);
}

/* More is free than a quarter of what is live. */
static bool is_too_much(const struct ps_heap *heap, uint32_t class_index) {
    uint32_t room = heap->room[class_index];
    /* relaxed: a count. */
    uint32_t all = ps_load_relaxed(&heap->x_spans[class_index]) * EIGHTHS;
    return room > KEPT_EIGHTHS && room > (all - ps_min(all, room)) / 4;
}

/* Looks at the longest available spans of a class while there is too much room. Returns the looks
 * that are left. */
static uint32_t scan_class(struct ps_heap *heap, uint32_t class_index, uint32_t looks) {
    while (looks > 0 && is_too_much(heap, class_index)) {
        struct ps_span *span = heap->available[class_index];
        if (span == NULL || span->used == 0) {
            break; /* what has drained is kept, and let go of, in its own way */
        }
        looks--;
        ps_span_settle(span);
        ps_room_leave(heap, span);
        if (span->used != 0 && eighths_of(span) >= EMPTY_EIGHTHS) {
            ps_room_orphan(heap, span);
        } else {
            ps_room_enter(heap, span);
        }
    }
    return looks;
}

void ps_room_gained(struct ps_heap *heap, struct ps_span *span) {
    count(heap, span, eighths_of(span));
}

void ps_room_scan(struct ps_heap *heap) {
    uint32_t looks = SCAN_LOOKS;
    bool is_shared = ps_load_relaxed(&ps_room_x_is_shared) != 0; /* relaxed: a hint */
    for (uint32_t i = 0; is_shared && i < ps_size_class_count; i++) {
        if (!ps_size_classes[i].has_lifo) {
            looks = scan_class(heap, i, looks);
        }
    }
}
