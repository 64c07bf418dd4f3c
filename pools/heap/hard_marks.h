/* SPDX-License-Identifier: MIT */
/*
 * Which small blocks are live, where they are hardened: the mark (marks.h) of a live block's first
 * 16 bytes is set. A byte each, so that threads that mark neighbours need no read-modify-write: a
 * locked bit was tried, and cost 10 ns for each block's life. Of two threads that free one block at
 * the same instant both may find the mark; whoever comes later does not.
 * Callers: hard.c. Any thread. No locks.
 */
#ifndef PS_HEAP_HARD_MARKS_H
#define PS_HEAP_HARD_MARKS_H

#include "pools/heap/marks.h"

#include <stdbool.h>

/* Makes a block live. False when memory for the marks is out. */
static inline bool ps_hard_mark(const void *block) {
    uint8_t *mark = ps_mark_make_at(block);
    if (PS_UNLIKELY(mark == NULL)) {
        return false;
    }
    /* relaxed: whoever frees the block was handed it, and with it this mark. */
    ps_store_relaxed(mark, (uint8_t)1);
    return true;
}

/* Whether an address, a multiple of 16, is that of a live block. */
static inline bool ps_hard_is_marked(const void *block) {
    const uint8_t *mark = ps_mark_at(block);
    return mark != NULL && ps_load_relaxed(mark) != 0; /* relaxed: as in ps_hard_mark */
}

/* Ends a block's life; false when no live block starts at this address, any address. */
static inline bool ps_hard_unmark(const void *block) {
    uint8_t *mark = ps_mark_at(block);
    if (PS_UNLIKELY(mark == NULL || ((uintptr_t)block & (((size_t)1 << PS_MARK_SHIFT) - 1)) != 0)) {
        return false;
    }
    bool is_live = ps_load_relaxed(mark) != 0; /* relaxed: as in ps_hard_mark */
    ps_store_relaxed(mark, (uint8_t)0);        /* relaxed: as in ps_hard_mark */
    return is_live;
}

#endif
