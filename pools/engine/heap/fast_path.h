/* SPDX-License-Identifier: MIT */
/*
 * The fast path, in the order of a pointer's life.
 *
 * malloc(n): one load finds the class of n, another the current span of the class in this thread's
 * heap. malloc pops the newest block of the span's list of freed blocks, whose line is probably
 * still in the processor's cache. If the list is empty, it takes the next block of the bin's
 * window, a range of blocks not used since the span was last empty. No atomic, no lock;
 * ps_heap_refill finds the next span or window. One comparison, with a word of the thread,
 * recognises requests above 1 KiB, and threads without a heap.
 *
 * free(p): if p continues this thread's free streak, free lengthens the streak by one, and returns.
 * Otherwise the page map translates the address, valid or not, into its span. If this thread's heap
 * owns the span, free pushes p on the span's list and decrements the span's countdown; at zero an
 * event settles the account (span drained? room again? a sequence?). Every other case - NULL, no
 * heap yet, another thread's block, one above 1 KiB, a foreign pointer - fails the same single
 * compare.
 *
 * These checks detect misuse (link.h): a free of an address where no block starts, of a block that
 * is on a list already or was never granted, and a free block that was overwritten. They cost no
 * cycle where they were measured, because nothing depends on their results.
 *
 * A thread may not take the fast path if blocks are hardened (hard.h). It has a fast_limit of 0 and
 * a key that matches no span, so that each of its calls takes the slow path.
 *
 * The slow paths are out of line and named for their reason. Callers: the entry points of shim/,
 * C++ operator new and delete among them, and the slow paths of heap/ and of the modes.
 */
#ifndef PS_HEAP_FAST_PATH_H
#define PS_HEAP_FAST_PATH_H

#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/small/link.h"

/* ---- pop, move the window, or find the bin something to pop ---- */
PS_INLINE void *ps_class_alloc(struct ps_heap *heap, size_t class_index, size_t bytes) {
    struct ps_span *source = heap->current[class_index];
    void *block = source->free;
    if (PS_LIKELY(!ps_link_is_end(block))) {
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
    struct ps_bin *bin = &heap->bins[class_index];
    PS_OPAQUE(bin); /* gcc would compute the address twice to save a register */
    void *fresh = ps_bin_move(bin, source);
    if (PS_UNLIKELY(fresh == NULL)) {
        return ps_heap_refill(heap, bin, bytes);
    }
    ps_thread_leave();
    return fresh;
}

/* ---- alloc ---- */
PS_INLINE void *ps_owned_alloc(size_t bytes) {
    ps_thread_enter();
    /* relaxed, both: as in ps_thread_fast. */
    if (PS_UNLIKELY(bytes >= ps_load_once(&ps_thread.fast_limit))) {
        return ps_heap_alloc_slow(bytes);
    }
    struct ps_heap *heap = ps_load_relaxed(&ps_thread.heap);
    return ps_class_alloc(heap, ps_size_class_of_few(bytes), bytes);
}

/* ---- preconditions of free: a granted block starts there, which is on no list ---- */
PS_INLINE bool ps_span_expects(const struct ps_span *span, const void *block) {
    /* relaxed: as in ps_span_handed_index; the owner may be another thread. */
    return ps_span_scaled(span, block) < ps_load_relaxed(&span->handed) &&
           !ps_link_is_near(block, ps_link_of(block, span->salt)) && !ps_link_is_marked(block);
}

/* ---- push on a span of this heap ---- */
PS_INLINE void ps_span_free(struct ps_span *span, void *block) {
    if (PS_UNLIKELY(!ps_span_has_handed(span, block))) {
        ps_heap_free_doubtful(block, span);
        return;
    }
    /* As ps_span_expects, with fewer instructions: the list leads to a block near this one, so that
     * all near links are stored alike, the low bits excepted. */
    uintptr_t link = ps_link_stored(span->free, span->salt);
    if (PS_UNLIKELY((link ^ ps_link_word(block)) < PS_GRANULE_BYTES)) {
        ps_heap_free_doubtful(block, span);
        return;
    }
    ps_link_store(block, link);
    span->free = block;
    if (PS_UNLIKELY(ps_counter_down(&span->free_countdown))) { /* the countdown is over */
        ps_heap_free_event(block, span);
        return;
    }
    ps_thread_leave();
}

/* ---- free ---- */
PS_INLINE void ps_owned_free(void *block) {
    /* Relaxed: written by this thread; the address that take_heap of thread.c writes there
     * continues no streak. */
    if (PS_LIKELY((char *)block == ps_load_once(&ps_thread.streak_next))) {
        /* release: pairs with stop_streak of thread.c; makes the program's accesses to the block
         * visible. */
        ps_store_release(&ps_thread.streak_next, (char *)block + ps_thread.streak_step);
        return;
    }
    ps_thread_enter();
    struct ps_span *span = ps_span_at(block);
    /* relaxed, both: equal only if this thread wrote them; otherwise the slow path is taken. */
    uintptr_t owner_key = ps_load_relaxed(&span->x_owner);
    if (PS_UNLIKELY(owner_key != ps_load_once(&ps_thread.key))) {
        ps_heap_free_slow(block, span, owner_key);
        return;
    }
    ps_span_free(span, block);
}

#endif
