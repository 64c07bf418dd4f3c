/* SPDX-License-Identifier: MIT */
/*
 * Free streaks: see struct ps_thread_words. Called by the owner of the heap.
 */
#ifndef PS_HEAP_STREAK_H
#define PS_HEAP_STREAK_H

#include "pools/engine/heap/heap.h"

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
