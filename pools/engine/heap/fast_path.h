/* SPDX-License-Identifier: MIT */
/*
 * The fast path, in the order of a pointer's life.
 *
 * malloc(n): the class of n is one load from a table and leads to the class's bin in this thread's
 * heap. The bin has a current span, with the list of blocks freed into it (in large classes: the
 * list of the newest freed blocks of all spans), and a window of blocks that were not touched since
 * their span was last empty. The newest block of the list is popped, while its cache line is still
 * present, or the window moves on by one. No atomic read-modify-write, no lock; ps_heap_refill
 * finds the next span or window.
 *
 * free(p): if p continues this thread's free streak, the streak grows by one, and that is all.
 * Otherwise the page map translates the address, which may be any, into its span. If this thread's
 * heap owns the span, p is pushed on the span's list and the span's countdown is decremented; at
 * zero an event settles the account (span drained? room again? a sequence?). Every other case -
 * NULL, no heap yet, another thread's block, a large block, a foreign pointer - fails the same
 * single compare.
 *
 * These checks detect misuse (misuse.h): a free of an address where no block starts, of a block
 * that is on a list already or was never granted, and a free block that was overwritten. They cost
 * no cycle where they were measured, because nothing depends on their results.
 *
 * A thread that may not take the fast path, for example because blocks are hardened (hard.h), has
 * no heap in ps_thread.heap and a key that matches no span, so that each of its calls takes the
 * slow path.
 *
 * The slow paths are out of line and named for their reason. C++ operator new and delete include
 * this file too.
 */
#ifndef PS_HEAP_FAST_PATH_H
#define PS_HEAP_FAST_PATH_H

#include "pools/engine/heap/alloc.h"
#include "pools/engine/heap/free.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/pop.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/small/misuse.h"

/* ---- class of a size ---- */
PS_INLINE struct ps_bin *ps_heap_bin(struct ps_heap *heap, size_t bytes) {
    struct ps_bin *bin = &heap->bins[ps_size_class_of(bytes)];
    PS_OPAQUE(bin); /* gcc would compute the address twice to save a register */
    return bin;
}

/* ---- pop, move the window, or refill ---- */
PS_INLINE void *ps_bin_alloc(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    struct ps_span *source = bin->source;
    void *block = source->free;
    if (!ps_link_is_end(block)) {
        void *next = ps_link_of(block, source->salt);
        if (PS_UNLIKELY(!ps_link_is_near(block, next))) {
            return ps_heap_pop_last(source);
        }
        ps_link_clear(block);
        source->free = next;
        ps_counter_up(&source->popped);
        ps_thread_leave();
        return block;
    }
    block = ps_bin_move(bin);
    if (PS_UNLIKELY(block == NULL)) {
        return ps_heap_refill(heap, bin, bytes);
    }
    ps_thread_leave();
    return block;
}

/* ---- alloc ---- */
PS_INLINE void *ps_heap_alloc(size_t bytes) {
    ps_thread_enter();
    struct ps_heap *heap = ps_load_relaxed(&ps_thread.heap); /* relaxed: as in ps_thread_own */
    if (PS_UNLIKELY(bytes > PS_CLASS_BYTES_LIMIT || heap == NULL)) {
        return ps_heap_alloc_slow(bytes);
    }
    return ps_bin_alloc(heap, ps_heap_bin(heap, bytes), bytes);
}

/* ---- preconditions of free: a granted block starts there, which is on no list ---- */
PS_INLINE bool ps_span_expects(const struct ps_span *span, const void *block) {
    return ps_span_is_aligned(span, block) && (uint32_t)(uintptr_t)block <= span->handed &&
           !ps_link_is_near(block, ps_link_of(block, span->salt));
}

/* ---- push on a span of this heap ---- */
PS_INLINE void ps_span_free(struct ps_span *span, void *block) {
    if (PS_UNLIKELY(!ps_span_expects(span, block))) {
        ps_heap_free_doubtful(span, block);
        return;
    }
    if (PS_UNLIKELY(ps_heap_push(span, block))) { /* the countdown has ended */
        ps_heap_free_event(span, block);
        return;
    }
    ps_thread_leave();
}

/* ---- free ---- */
PS_INLINE void ps_heap_free(void *block) {
    /* relaxed: written by this thread; the value that take.c stores continues no streak. */
    if (PS_LIKELY((char *)block == ps_load_to_compare(&ps_thread.streak_next))) {
        /* release: pairs with stop_streak of take.c; makes the program's accesses to the block
         * visible. */
        ps_store_release(&ps_thread.streak_next, (char *)block + ps_thread.streak_step);
        return;
    }
    ps_thread_enter();
    struct ps_span *span = ps_span_at(block);
    /* relaxed, both: equal only if this thread wrote them; otherwise the slow path is taken. */
    uintptr_t owner_key = ps_load_relaxed(&span->x_owner);
    if (PS_UNLIKELY(owner_key != ps_load_to_compare(&ps_thread.key))) {
        ps_heap_free_slow(span, block, owner_key);
        return;
    }
    ps_span_free(span, block);
}

#endif
