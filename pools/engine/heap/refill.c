/* SPDX-License-Identifier: MIT */
/*
 * Refill: the sources of blocks when a bin is empty, and, with bin_return.c, the only code that
 * moves spans between current, available, full and released. Called by the heap's owner. Locks only
 * through the page cache and the orphans.
 *
 * Order: the processor's cache, the current span (its list, stash and gaps, remote frees or fresh
 * blocks), spans named by notices, others with room, an orphan of the class, fresh memory, granules
 * of a region of medium blocks (page/medium.h). exhausted.c has what comes after those.
 */
#include "pools/engine/heap/refill.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/bin_return.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

/* Blocks of a gap that become a list at a time. */
#define LINKED_AT_ONCE 32
#define LINKED_BYTES ((size_t)4 << 10) /* their pages may be purged: span_purge.h */

/* When this fraction of a span's used blocks has returned, it is collected before fresh ones. */
#define BACK_FRACTION 8

size_t ps_refill_window_blocks = SIZE_MAX;
uint32_t ps_refill_sparse_spans;

struct ps_span ps_span_none = {.free = PS_LINK_END, .stash = PS_LINK_END};

static void grant_window(struct ps_bin *bin, struct ps_span *span, size_t index, size_t blocks) {
    PS_CHECK(blocks > 0);
    if (span->has_streaks && index == span->first) {
        /* Block 0 is never granted: it counts as freed. */
        ps_link_write(span->run.base, ps_span_list_end(span), span->salt);
    }
    bin->cur = ps_span_block(span, index);
    bin->end = ps_span_block(span, index + blocks);
    /* relaxed: see ps_span_is_unhanded. As it is already, unless a window was lost in a fork. */
    ps_store_relaxed(&span->handed, (uint32_t)index << PS_SCALED_SHIFT);
    ps_owner_add(&span->used, blocks);
    ps_owner_add(&bin->x_taken, blocks);
    ps_span_settle(span);
}

/* Makes a list of the first few blocks of the first gap. They are touched one step before they are
 * used, and a block that has been freed a second time since is detected. */
static void link_from_gap(struct ps_span *span) {
    size_t index = (size_t)span->gap_head - 1;
    const struct ps_gap gap = *ps_span_gap(span, span->gap_head);
    if (PS_UNLIKELY(gap.blocks > span->gap_blocks)) {
        ps_span_corrupt(span, PS_SPAN_BAD_GAP);
    }
    size_t most = ps_min(LINKED_AT_ONCE, ps_max(LINKED_BYTES / span->block_bytes, 1));
    size_t blocks = ps_min(ps_min(gap.blocks, most), ps_refill_window_blocks);
    if (gap.blocks > blocks) {
        struct ps_gap *rest = (struct ps_gap *)ps_span_block(span, index + blocks);
        rest->next = gap.next;
        rest->blocks = (uint16_t)(gap.blocks - blocks);
        span->gap_head = (uint16_t)(index + blocks + 1);
    } else {
        span->gap_head = gap.next;
    }
    span->gap_blocks = (uint16_t)(span->gap_blocks - blocks);
    ps_span_link_blocks(span, ps_span_block(span, index), blocks);
    span->free = ps_span_block(span, index);
    span->free_count = (uint16_t)blocks;
}

/* Returns true when enough blocks have returned to be collected before fresh ones are granted,
 * which take memory only once they are used. */
static bool is_enough_back(const struct ps_span *span) {
    size_t back = ps_span_remote_blocks(span);
    return back != 0 && back * BACK_FRACTION >= (size_t)(span->carved - span->first);
}

/* Makes blocks of the current span available to its bin. Returns false when it has none. */
static bool grant(struct ps_bin *bin, struct ps_span *span) {
    ps_bin_settle(bin, span);
    if (!ps_link_is_end(span->free)) {
        return true; /* malloc pops from the list */
    }
    if (!ps_link_is_end(span->stash)) {
        span->free = span->stash;
        span->free_count = span->stash_count;
        span->stash = ps_span_list_end(span);
        span->stash_count = 0;
        return true;
    }
    if (span->gap_head != 0) {
        link_from_gap(span);
        return true;
    }
    if (span->carved == span->limit || is_enough_back(span)) {
        return false;
    }
    size_t first = span->carved;
    size_t blocks = ps_min(span->window_blocks, span->limit - first);
    blocks = ps_min(blocks, ps_refill_window_blocks);
    /* No block was returned meanwhile, so the program is growing. Bounded, because an owner that
     * ends returns its window, and a span may therefore be here any number of times. */
    span->window_blocks = (uint16_t)ps_min((size_t)span->window_blocks * 2, ps_span_capacity(span));
    bin->is_zero = span->is_zero;
    ps_owner_add(&span->carved, blocks);
    grant_window(bin, span, first, blocks);
    return true;
}

void ps_heap_release_span(struct ps_heap *heap, struct ps_span *span) {
    ps_add_relaxed(&heap->x_spans[span->class_index], (uint32_t)-1); /* relaxed: a count */
    ps_span_destroy(span);
}

/* Handles a span whose blocks are all free and that is in no bin. One is cached per class, at the
 * tail of its list, so that a program that oscillates across a span boundary does not take the page
 * lock each time, unless memory is short; so are sparse ones, which are few and small, because each
 * costs system calls. ps_heap_drop_drained releases them periodically. */
static void span_drained(struct ps_heap *heap, struct ps_span *span) {
    if (span->place == PS_PLACE_AVAILABLE) {
        ps_room_leave(heap, span);
    }
    ps_span_attach(span);
    bool is_kept = heap->available[span->class_index] == NULL && ps_retention_is_usual();
    if (is_kept || ps_span_is_queued(span) || ps_span_is_sparse(span)) {
        ps_span_reset(span);
        ps_room_enter(heap, span);
        return;
    }
    ps_heap_release_span(heap, span);
}

void ps_heap_span_gained(struct ps_heap *heap, struct ps_span *span) {
    /* Ends: each further round has collected blocks that were returned meanwhile. */
    while (span->place != PS_PLACE_CURRENT) {
        if (span->used == 0) {
            span_drained(heap, span);
            return;
        }
        if (span->place == PS_PLACE_FULL && ps_span_has_room(span)) {
            ps_span_attach(span);
            ps_room_enter(heap, span);
        }
        bool is_back = ps_span_out_blocks(span) == 0;
        if ((!is_back && ps_span_arm(span, ps_span_notice_blocks(span))) ||
            (ps_span_collect(span) == 0 && is_back)) {
            break;
        }
    }
    if (span->place == PS_PLACE_FULL) {
        ps_span_detach(span);
    } else if (span->place == PS_PLACE_AVAILABLE) {
        ps_room_gained(heap, span);
    }
}

/* Retires a span without blocks to grant from its bin. */
static void retire_full(struct ps_heap *heap, struct ps_span *span) {
    span->place = PS_PLACE_FULL;
    ps_bin_settle(&heap->bins[span->class_index], span);
    if (ps_span_arm_unreturned(span, ps_span_worth_blocks(span))) {
        ps_span_detach(span);
    } else {
        ps_heap_span_gained(heap, span); /* enough blocks may have been returned at this moment */
    }
}

/* True when a current span has no block left to grant, unless others have returned some. */
static bool is_spent(const struct ps_bin *bin, const struct ps_span *span) {
    return bin->cur == bin->end && !ps_span_has_room(span) && span != &ps_span_none;
}

int64_t ps_heap_swap_in(struct ps_heap *heap, struct ps_span *span) {
    struct ps_bin *bin = &heap->bins[span->class_index];
    struct ps_span *spent = heap->current[span->class_index];
    if (!is_spent(bin, spent)) {
        return 0;
    }
    int64_t popped = spent->popped;
    ps_span_attach(span);
    span->place = PS_PLACE_CURRENT;
    ps_span_disarm(span);
    heap->current[span->class_index] = span;
    retire_full(heap, spent);
    return popped;
}

void ps_heap_take_in(struct ps_heap *heap, struct ps_span *span) {
    span->place = PS_PLACE_FULL;
    ps_span_settle(span);
    ps_span_collect(span);
    ps_heap_span_gained(heap, span);
}

static bool make_current(struct ps_heap *heap, struct ps_bin *bin, struct ps_span *span) {
    uint32_t class_index = span->class_index;
    span->place = PS_PLACE_CURRENT;
    ps_span_disarm(span); /* every refill of the class collects it */
    heap->current[class_index] = span;
    bool has_room = grant(bin, span) || (ps_span_collect(span) != 0 && grant(bin, span));
    if (!has_room) {
        heap->current[class_index] = &ps_span_none;
        retire_full(heap, span);
    }
    return has_room;
}

static bool refill_from_available(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index) {
    struct ps_span **list = &heap->available[class_index];
    while (*list != NULL) { /* ends: each round removes one, and only spans with room return */
        struct ps_span *span = *list;
        ps_room_leave(heap, span);
        if (make_current(heap, bin, span)) {
            return true;
        }
    }
    return false;
}

static bool refill_from_orphans(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index,
                                bool is_any_node) {
    struct ps_span *span =
        ps_orphans_adopt(class_index, ps_heap_key_of(heap, class_index), is_any_node);
    if (span == NULL) {
        return false;
    }
    ps_add_relaxed(&heap->x_spans[class_index], 1u); /* relaxed: a count */
    return make_current(heap, bin, span);
}

/*
 * Creates a span. While blocks are hardened, the first spans of a class in a heap are sparse; more
 * of them would cost short loops more system calls than blocks. Otherwise the first is clean: of
 * most classes a thread uses a few blocks, and the rest of a dirty run would be resident but
 * unused.
 */
static struct ps_span *create(uint32_t class_index, uintptr_t key, uint32_t spans, bool is_dense) {
    if (spans < ps_refill_sparse_spans) {
        return ps_span_create_sparse(class_index, key);
    }
    if (spans == 0) {
        return ps_span_create_clean(class_index, key);
    }
    return is_dense ? ps_span_create_dense(class_index, key) : ps_span_create(class_index, key);
}

static bool add_created(struct ps_heap *heap, struct ps_bin *bin, struct ps_span *span) {
    ps_add_relaxed(&heap->x_spans[span->class_index], 1u); /* relaxed: a count */
    if (ps_limit_is_on()) {
        ps_limit_make_room((size_t)span->run.granules << PS_GRANULE_SHIFT);
    }
    return make_current(heap, bin, span);
}

/* Refills from fresh memory. */
static bool refill_fresh(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index) {
    ps_steal_from_candidate(heap);
    uint32_t spans = ps_load_relaxed(&heap->x_spans[class_index]); /* relaxed: a count */
    size_t bytes = ((size_t)spans * ps_size_classes[class_index].granules) << PS_GRANULE_SHIFT;
    uintptr_t key = ps_heap_key_of(heap, class_index);
    bool is_dense = ps_huge_is_dense_class(ps_size_classes[class_index].block_bytes, bytes);
    struct ps_span *span = create(class_index, key, spans, is_dense);
    if (PS_UNLIKELY(span == NULL)) {
        ps_mode.hook.reclaim();
        span = create(class_index, key, spans, false);
    }
    return span != NULL && add_created(heap, bin, span);
}

/* Refills when the page cache has nothing. */
static PS_COLD bool refill_last(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index) {
    if (!heap->is_exhausted) { /* else it has been done for all classes */
        ps_remote_collect_full(heap);
    }
    if (refill_from_available(heap, bin, class_index)) {
        return true;
    }
    uint64_t left = ps_orphans_of_class(class_index) / PS_ORPHANS_EXAMINED + 1;
    for (; left > 0; left--) {
        if (refill_from_orphans(heap, bin, class_index, true)) {
            return true;
        }
    }
    struct ps_span *span =
        heap->is_exhausted ? NULL
                           : ps_span_create_lent(class_index, ps_heap_key_of(heap, class_index));
    return span != NULL && add_created(heap, bin, span);
}

bool ps_heap_refill_class(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index) {
    struct ps_span *span = heap->current[class_index];
    if (heap->streak_span != NULL && heap->streak_span->class_index == class_index) {
        ps_streak_close(heap); /* its blocks may be the only free memory */
    }
    if (span != &ps_span_none && make_current(heap, bin, span)) {
        return true;
    }
    ps_heap_take_notices(heap);
    return refill_from_available(heap, bin, class_index) ||
           refill_from_orphans(heap, bin, class_index, !ps_retention_is_usual()) ||
           (!heap->is_exhausted && refill_fresh(heap, bin, class_index)) ||
           refill_last(heap, bin, class_index);
}

PS_NOINLINE void *ps_plain_alloc_large(struct ps_heap *heap, size_t bytes) {
    if (heap != NULL) {
        ps_heap_tick(heap);
    }
    return ps_large_alloc(bytes, 1, NULL);
}

PS_COLD void *ps_heap_alloc_exhausted(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    if (heap->is_exhausted || ps_mode.hook.refills_by_class) {
        return NULL;
    }
    void *block = ps_exhausted_take_longer(heap, class_index, bytes);
    if (block == NULL && ps_remote_collect_rest(heap)) {
        block = ps_exhausted_take_any(heap, class_index, bytes);
    }
    return ps_exhausted_note(block);
}

static PS_NOINLINE void *refill_bin(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    uint32_t class_index = (uint32_t)(bin - heap->bins);
    ps_bin_note_request(bin, bytes);
    if (!ps_heap_refill_class(heap, bin, class_index)) {
        return ps_heap_alloc_exhausted(heap, class_index, bytes);
    }
    return ps_mode.hook.take(heap, class_index);
}

void *ps_plain_take(struct ps_heap *heap, uint32_t class_index) {
    return ps_class_take(heap, class_index);
}

void *ps_plain_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    if (bin == &heap->bins[PS_CLASS_NONE]) {
        return ps_plain_alloc_large(heap, bytes);
    }
    ps_heap_tick(heap);
    return refill_bin(heap, bin, bytes);
}

PS_NOINLINE void *ps_heap_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    void *block = ps_mode.hook.refill(heap, bin, bytes);
    ps_thread_leave();
    return block;
}
