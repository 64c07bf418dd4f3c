/* SPDX-License-Identifier: MIT */
/*
 * Refill: where blocks come from when a bin is empty, and the moves of spans between current,
 * available, full and gone. Called by the owner of the heap, alone.
 */
#ifndef PS_HEAP_REFILL_H
#define PS_HEAP_REFILL_H

#include "pools/engine/heap/heap.h"

/* A block for a request that found its bin empty. bytes: the request, for the bin of no class.
 * NULL with errno ENOMEM. The last that an allocation does with the heap: it leaves. */
void *ps_heap_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);

/* Gives the memory of a drained span of this heap, on no list, back to the page cache. */
void ps_heap_release_span(struct ps_heap *heap, struct ps_span *span);

/* Finds blocks of a class for its bin. False when memory is out. */
bool ps_heap_refill_class(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index);

/* ps_heap_refill of the plain mode, and what it does where no class serves; then heap may be NULL.
 */
void *ps_plain_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);
void *ps_plain_alloc_large(struct ps_heap *heap, size_t bytes);

/* Blocks that a window, or a list made of a run, may have: SIZE_MAX, less while allocations are
 * sampled. Set once, at start. */
extern PS_HIDDEN size_t ps_refill_window_blocks;

/* So many spans of a class in a heap are sparse (small/span_room.h): 0, more where blocks are
 * hardened. Set once, at start. */
extern PS_HIDDEN uint32_t ps_refill_sparse_spans;

/* Settled frees have changed a span that is not current: makes it available or lets it go. */
void ps_heap_span_gained(struct ps_heap *heap, struct ps_span *span);

/* Enters a span that is on no list and has become this heap's. */
void ps_heap_take_in(struct ps_heap *heap, struct ps_span *span);

/* Puts what the bin still holds back into its span; the bin has no span afterwards, the span is
 * available, full or gone. */
void ps_heap_empty_bin(struct ps_heap *heap, uint32_t class_index);

#endif
