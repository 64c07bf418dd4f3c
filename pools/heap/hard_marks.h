/* SPDX-License-Identifier: MIT */
/*
 * A mark for every 16 bytes of a slice with small blocks: set where a live block starts. Out of
 * band, and a byte each, so that threads that mark neighbours need no read-modify-write: a locked
 * bit was tried, and cost 10 ns for each block's life. Of two threads that free one block at the
 * same instant both may find the mark; whoever comes later does not.
 * Callers: hard.c. Any thread. No locks.
 */
#ifndef PS_HEAP_HARD_MARKS_H
#define PS_HEAP_HARD_MARKS_H

#include <stdbool.h>

/* Makes a block live. False when memory for the marks is out. */
bool ps_hard_mark(const void *block);

/* Whether an address, a multiple of 16, is that of a live block. */
bool ps_hard_is_marked(const void *block);

/* Ends a block's life; false when it was not live. */
bool ps_hard_unmark(const void *block);

#endif
