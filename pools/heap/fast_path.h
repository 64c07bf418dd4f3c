/* SPDX-License-Identifier: MIT */
/*
 * The fast path, in the order a pointer lives.
 *
 * malloc(n): the class of n is one load from a table, and leads to the class's bin in this thread's
 * heap. The bin has a current span, with a list of the blocks freed into it (in large classes: a
 * list of the newest blocks freed, whatever their span), and a window of blocks that nobody has
 * touched since their span was last empty. The newest block of the list is popped, while its line
 * is still in the cache, or the window is moved on by one. No atomic, no lock; heap_refill finds
 * the next span or window.
 *
 * free(p): if p continues this thread's hot run, the run grows by one; that is all. Else the page
 * map turns the address into its span, for any address whatever. If this thread's heap owns the
 * span, p is pushed on the span's list and the span's countdown taken down by one; at zero an
 * event settles the account (span drained? room again? a sequence?). Every other case - NULL, no
 * heap yet, another thread's block, a large block, a foreign pointer - fails the same one compare.
 *
 * The slow paths are out of line and named for their reason. C++ operator new and delete include
 * this file too.
 */
#ifndef PS_HEAP_FAST_PATH_H
#define PS_HEAP_FAST_PATH_H

#include "pools/heap/heap.h"

/* Slow path of alloc: larger than every class, or this thread has no heap. */
void *ps_heap_alloc_beyond(size_t bytes);

/* Slow path of free: what owner_key says, read from the slot of block, is not that the block goes
 * to a span of this heap at once. */
void ps_heap_free_other(struct ps_span *span, void *block, uintptr_t owner_key);

/* Slow path of free: the span's countdown is over. */
void ps_heap_free_event(struct ps_span *span, void *block);

/* ---- class of size ---- */
PS_INLINE struct ps_bin *ps_heap_bin(struct ps_heap *heap, size_t bytes) {
    struct ps_bin *bin = &heap->bins[ps_size_class_of(bytes)];
    PS_OPAQUE(bin); /* gcc would compute the address twice to save a register */
    return bin;
}

/* ---- pop: NULL when the bin is empty ---- */
PS_INLINE void *ps_bin_pop(struct ps_bin *bin) {
    struct ps_span *source = bin->source;
    void *block = source->free;
    if (block != NULL) {
        source->free = *(void **)block;
        ps_owner_add(&source->popped, 1);
        return block;
    }
    char *cur = bin->cur;
    if (PS_UNLIKELY(cur == bin->end)) {
        return NULL;
    }
    if (cur == NULL) {
        __builtin_unreachable(); /* a window that is not empty lies somewhere: saves a test */
    }
    bin->cur = cur + bin->block_bytes;
    return cur;
}

/* ---- pop, or find the bin something to pop ---- */
PS_INLINE void *ps_bin_alloc(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    void *block = ps_bin_pop(bin);
    return PS_LIKELY(block != NULL) ? block : ps_heap_refill(heap, bin, bytes);
}

/* ---- alloc ---- */
PS_INLINE void *ps_heap_alloc(size_t bytes) {
    struct ps_heap *heap = ps_thread.heap;
    if (PS_UNLIKELY(bytes > PS_CLASS_BYTES_LIMIT || heap == NULL)) {
        return ps_heap_alloc_beyond(bytes);
    }
    return ps_bin_alloc(heap, ps_heap_bin(heap, bytes), bytes);
}

/* ---- push: true when the countdown is over ---- */
PS_INLINE bool ps_span_push(struct ps_span *span, void *block) {
    *(void **)block = span->free;
    span->free = block;
    uint16_t needed = (uint16_t)(span->needed - 1);
    ps_store_relaxed(&span->needed, needed); /* relaxed: census wants a snapshot only */
    return needed == 0;
}

/* ---- free ---- */
PS_INLINE void ps_heap_free(void *block) {
    if (PS_LIKELY((char *)block == ps_thread.run_next)) {
        ps_thread.run_next += ps_thread.run_step;
        return;
    }
    struct ps_span *span = ps_span_at(block);
    /* relaxed: equal only if this thread wrote it; any other value leads to the slow path. */
    uintptr_t owner_key = ps_load_relaxed(&span->x_owner);
    if (PS_UNLIKELY(owner_key != ps_heap_key(ps_thread.heap))) {
        ps_heap_free_other(span, block, owner_key);
        return;
    }
    if (PS_UNLIKELY(ps_span_push(span, block))) {
        ps_heap_free_event(span, block);
    }
}

#endif
