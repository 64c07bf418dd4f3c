/* SPDX-License-Identifier: MIT */
/*
 * Lists of free blocks, out of line: for slow paths, for the modes, and for the one list whose
 * links leave their granule. Called by the owner of the heap; ps_heap_is_free by any thread.
 */
#ifndef PS_HEAP_POP_H
#define PS_HEAP_POP_H

#include "pools/engine/heap/refill.h"

/* Pops the newest block of a non-empty list, with full link validation. */
__attribute__((returns_nonnull)) void *ps_heap_pop(struct ps_span *source);

/* As ps_heap_pop, as the last access of an allocation to the heap: leaves. */
void *ps_heap_pop_last(struct ps_span *source);

/* The next block of a list, with full link validation. */
void *ps_heap_next(const struct ps_span *list, void *block);

/* True when a block of a span is free, as far as the block and the caller's heap tell: it is on a
 * list, or was never granted. */
bool ps_heap_is_free(const struct ps_span *span, const void *block);

/* Moves the window on by one block. NULL when it is empty. */
PS_INLINE void *ps_bin_move(struct ps_bin *bin) {
    char *cur = bin->cur;
    if (PS_UNLIKELY(cur == bin->end)) {
        return NULL;
    }
    if (cur == NULL) {
        __builtin_unreachable(); /* a non-empty window has an address: saves a test */
    }
    bin->cur = cur + bin->block_bytes;
    /* relaxed: see ps_span_is_unhanded. */
    ps_store_relaxed(&bin->source->handed, (uint32_t)(uintptr_t)cur);
    return cur;
}

/* Pops, or moves the window, with full validation. NULL when the bin is empty. */
static inline void *ps_bin_take(struct ps_bin *bin) {
    return !ps_link_is_end(bin->source->free) ? ps_heap_pop(bin->source) : ps_bin_move(bin);
}

/* As ps_bin_alloc of fast_path.h, with full validation. */
static inline void *ps_heap_take(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    void *block = ps_bin_take(bin);
    return PS_LIKELY(block != NULL) ? block : ps_heap_refill(heap, bin, bytes);
}

/* The push of ps_span_free; the span may be of any class, or a LIFO cache. */
static inline bool ps_heap_push(struct ps_span *list, void *block) {
    ps_link_write(block, list->free, list->salt);
    list->free = block;
    return ps_counter_down(&list->free_countdown);
}

#endif
