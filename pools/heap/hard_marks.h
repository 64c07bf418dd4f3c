/* SPDX-License-Identifier: MIT */
/*
 * A mark for every 16 bytes of a slice with small blocks: set where a live block starts. Out of
 * band, and a byte each, so that threads that mark neighbours need no read-modify-write: a locked
 * bit was tried, and cost 10 ns for each block's life. Of two threads that free one block at the
 * same instant both may find the mark; whoever comes later does not.
 * One table for each gigabyte that has small blocks, as the page map has leaves: 64 MiB of
 * addresses, of which a page is touched for each slice.
 * Callers: hard.c. Any thread. No locks.
 */
#ifndef PS_HEAP_HARD_MARKS_H
#define PS_HEAP_HARD_MARKS_H

#include "pools/base/atomic.h"
#include "pools/base/compiler.h"
#include "pools/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_MARK_SHIFT 4 /* a mark for so many bytes: 16 */
#define PS_MARKS_BYTES (((size_t)1 << PS_LEAF_SHIFT) >> PS_MARK_SHIFT)

extern PS_HIDDEN uint8_t *ps_hard_marks[PS_ROOT_COUNT];

/* The table for a block, made if it is not there; NULL when memory is out. */
uint8_t *ps_hard_marks_make(const void *block);

static inline size_t ps_marks_index_of(const void *block) {
    return ((uintptr_t)block >> PS_LEAF_SHIFT) & (PS_ROOT_COUNT - 1);
}

static inline uint8_t *ps_hard_marks_of(const void *block) {
    return ps_load_acquire(&ps_hard_marks[ps_marks_index_of(block)]); /* acquire: see make */
}

static inline uint8_t *ps_hard_mark_in(uint8_t *table, const void *block) {
    return &table[((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >> PS_MARK_SHIFT];
}

/* Makes a block live. False when memory for the marks is out. */
static inline bool ps_hard_mark(const void *block) {
    uint8_t *table = ps_hard_marks_of(block);
    if (PS_UNLIKELY(table == NULL)) {
        table = ps_hard_marks_make(block);
        if (table == NULL) {
            return false;
        }
    }
    /* relaxed: whoever frees the block was handed it, and with it this mark. */
    ps_store_relaxed(ps_hard_mark_in(table, block), (uint8_t)1);
    return true;
}

/* Whether an address, a multiple of 16, is that of a live block. */
static inline bool ps_hard_is_marked(const void *block) {
    uint8_t *table = ps_hard_marks_of(block);
    /* relaxed: as in ps_hard_mark. */
    return table != NULL && ps_load_relaxed(ps_hard_mark_in(table, block)) != 0;
}

/* Ends a block's life; false when no live block starts at this address, any address. */
static inline bool ps_hard_unmark(const void *block) {
    uint8_t *table = ps_hard_marks_of(block);
    if (PS_UNLIKELY(table == NULL ||
                    ((uintptr_t)block & (((size_t)1 << PS_MARK_SHIFT) - 1)) != 0)) {
        return false;
    }
    uint8_t *mark = ps_hard_mark_in(table, block);
    bool is_live = ps_load_relaxed(mark) != 0; /* relaxed: as in ps_hard_mark */
    ps_store_relaxed(mark, (uint8_t)0);        /* relaxed: as in ps_hard_mark */
    return is_live;
}

#endif
