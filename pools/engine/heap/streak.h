/* SPDX-License-Identifier: MIT */
/*
 * Free streaks: see struct ps_thread_words. Called by the owner of the heap.
 */
#ifndef PS_HEAP_STREAK_H
#define PS_HEAP_STREAK_H

#include "pools/engine/heap/heap.h"

/* Opens a free streak with `block`, which counts as used until the run is booked. */
void ps_streak_open(struct ps_heap *heap, struct ps_span *span, void *block, ptrdiff_t step);

/* Books this thread's free streak, if one is open, with its span's owner. */
void ps_streak_close(struct ps_heap *heap);

/* Books the open run of a heap, if there is one, that stands at these words. */
void ps_streak_book(struct ps_heap *heap, char *next, ptrdiff_t step);

/* What they do with the blocks in the plain mode. */
void ps_plain_return_streak(struct ps_heap *heap, struct ps_span *span, char *lowest,
                            size_t blocks);

/* The step if the three blocks at the head of a list were freed in sequence, else 0. */
ptrdiff_t ps_streak_step_of(const struct ps_span *span, void *newest);

#endif
