/* SPDX-License-Identifier: MIT */
/*
 * Lists of free blocks, out of line: for slow paths, for the modes, and for spans whose links leave
 * their granule; and the free streaks that are found in them, see struct ps_thread_words. Called by
 * the owner of the heap; ps_heap_is_free by any thread. No locks.
 */
#ifndef PS_HEAP_FREE_LIST_H
#define PS_HEAP_FREE_LIST_H

#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/refill.h"

/* Pops the newest block of a non-empty list, with full link validation. */
__attribute__((returns_nonnull)) void *ps_heap_pop(struct ps_span *source);

/* As ps_heap_pop, as the last access of an allocation to the heap: leaves. */
void *ps_heap_pop_last(struct ps_span *source);

/* The next block of a list, with full link validation. */
void *ps_heap_next(const struct ps_span *list, void *block);

/* True when a block of a span is free, as far as the block tells: it is on a list, or was never
 * granted. */
bool ps_heap_is_free(const struct ps_span *span, const void *block);

/* Takes the next block of the window. source: of the class. NULL when the window is empty. */
PS_INLINE void *ps_bin_move(struct ps_bin *bin, struct ps_span *source) {
    char *cur = bin->cur;
    if (PS_UNLIKELY(cur == bin->end)) {
        return NULL;
    }
    if (cur == NULL) {
        __builtin_unreachable(); /* a non-empty window has an address: saves a test */
    }
    bin->cur = cur + bin->block_bytes;
    /* relaxed: see ps_span_is_unhanded. */
    ps_counter_add(&source->handed, PS_SCALED_ONE);
    return cur;
}

/* Pops or moves the window, for hardened blocks too. NULL when the bin is empty. */
static inline void *ps_class_take(struct ps_heap *heap, uint32_t class_index) {
    struct ps_span *source = heap->current[class_index];
    return !ps_link_is_end(source->free) ? ps_heap_pop(source)
                                         : ps_bin_move(&heap->bins[class_index], source);
}

/* As ps_class_alloc of fast_path.h, likewise. */
static inline void *ps_heap_take(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    void *block = ps_class_take(heap, class_index);
    return PS_LIKELY(block != NULL) ? block : ps_heap_refill(heap, &heap->bins[class_index], bytes);
}

/* The push of ps_span_free; the span may be of any class. */
static inline bool ps_heap_push(struct ps_span *list, void *block) {
    ps_link_write(block, list->free, list->salt);
    list->free = block;
    return ps_counter_down(&list->free_countdown);
}

/* ---- free streaks ---- */

/* Opens a free streak with `block`, which counts as used until the streak ends. */
void ps_streak_open(struct ps_heap *heap, struct ps_span *span, void *block, ptrdiff_t step);

/* Ends this thread's free streak, if one is open, and returns its blocks to their span. */
void ps_streak_close(struct ps_heap *heap);

/* Ends a heap's open streak, if there is one, with the thread words given as arguments. */
void ps_streak_book(struct ps_heap *heap, char *next, ptrdiff_t step);

/* Returns the blocks of a streak, in the plain mode. */
void ps_plain_return_streak(struct ps_heap *heap, struct ps_span *span, char *lowest,
                            size_t blocks);

/* The step if the three blocks at the head of a list were freed in sequence, else 0. */
ptrdiff_t ps_streak_step_of(const struct ps_span *span, void *newest);

#endif
