/* SPDX-License-Identifier: MIT */
/*
 * Refill: the sources of blocks when a bin is empty, and the moves of spans between current,
 * available, full and released. Called by the owner of the heap only.
 */
#ifndef PS_HEAP_REFILL_H
#define PS_HEAP_REFILL_H

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/heap.h"

#define PS_ROUNDING_FRACTION 16 /* of the mean rounding, what the newest request counts for */

/* Allocates a block for a request that found its bin empty. bytes: the request, for the bin of no
 * class. NULL with errno ENOMEM. The last access of an allocation to the heap: leaves. */
void *ps_heap_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);

/* Settles the account of a span, which may be the current one of its class, and counts the blocks
 * that malloc has popped from it. */
static inline void ps_bin_settle(struct ps_bin *bin, struct ps_span *span) {
    ps_owner_add(&bin->x_taken, span->popped);
    ps_span_settle(span);
}

/* The same before a function of the layer below that settles: counts the pops, which would be lost.
 */
static inline void ps_bin_count(struct ps_heap *heap, struct ps_span *span) {
    if (span->popped != 0) {
        ps_bin_settle(&heap->bins[span->class_index], span);
    }
}

/* Counts a request that found its bin empty in the mean rounding of its class; the fast path knows
 * only the class of a request. */
static inline void ps_bin_note_request(struct ps_bin *bin, size_t bytes) {
    uint32_t unused = bin->block_bytes > bytes ? bin->block_bytes - (uint32_t)bytes : 0;
    int32_t share = (int32_t)ps_min((unused << 16) / bin->block_bytes, UINT16_MAX);
    int32_t old = bin->x_rounding;
    int32_t mean = old == 0 ? share : old + (share - old) / PS_ROUNDING_FRACTION;
    ps_store_relaxed(&bin->x_rounding, (uint16_t)mean); /* relaxed: for the census */
}

/* Returns the memory of a drained span of this heap, which is on no list, to the page cache. */
void ps_heap_release_span(struct ps_heap *heap, struct ps_span *span);

/* Finds blocks of a class for its bin. Returns false when memory is exhausted. */
bool ps_heap_refill_class(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index);

/* Allocates for a request of a class that ps_heap_refill_class has refused, from what exhausted.h
 * has. bytes: as in ps_heap_refill. NULL with errno ENOMEM; always, and without errno, in a mode
 * whose callers need a block of the class (refills_by_class of mode.h), and in the search that this
 * function makes. */
void *ps_heap_alloc_exhausted(struct ps_heap *heap, uint32_t class_index, size_t bytes);

/* The hooks of the plain mode. If no class serves the request, heap may be NULL. */
void *ps_plain_take(struct ps_heap *heap, uint32_t class_index);
void *ps_plain_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);
void *ps_plain_alloc_large(struct ps_heap *heap, size_t bytes);

/* Maximum number of blocks in a window, or in a list made from a gap: SIZE_MAX, less while
 * allocations are sampled. Written once, at start. */
extern PS_HIDDEN size_t ps_refill_window_blocks;

/* Number of spans of a class in a heap that are sparse (small/span_room.c): 0, more where blocks
 * are hardened. Written once, at start. */
extern PS_HIDDEN uint32_t ps_refill_sparse_spans;

/* Moves a span that is not current after its account has changed: makes it available, or releases
 * it. */
void ps_heap_span_gained(struct ps_heap *heap, struct ps_span *span);

/*
 * Makes a full span, into which a block was just freed, the current one of its class if that is
 * spent: the next malloc takes the block, whose lines are cached, without a refill. The caller
 * settles the span's account next. Returns how many blocks malloc took from the retired span since
 * that was settled.
 */
int64_t ps_heap_swap_in(struct ps_heap *heap, struct ps_span *span);

/* Adds a span that has become this heap's and is on no list. */
void ps_heap_take_in(struct ps_heap *heap, struct ps_span *span);

#endif
