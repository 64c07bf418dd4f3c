/* SPDX-License-Identifier: MIT */
/*
 * A byte for every 16 bytes of addresses that hold small blocks, out of band: whether a block is
 * live where blocks are hardened (hard_marks.h), what it was asked for where they are recorded
 * (record_marks.h); never both. One table for each gigabyte, as the page map has leaves: 64 MiB of
 * addresses, of which a page is touched for each slice.
 * Callers: hard_marks.h, record_marks.h. Any thread. No locks.
 */
#ifndef PS_HEAP_MARKS_H
#define PS_HEAP_MARKS_H

#include "pools/base/atomic.h"
#include "pools/base/compiler.h"
#include "pools/page/page_map.h"

#include <stddef.h>
#include <stdint.h>

#define PS_MARK_SHIFT 4 /* a mark for so many bytes: 16 */

extern PS_HIDDEN uint8_t *ps_marks[PS_ROOT_COUNT];

/* Makes the table for a block's address; NULL when memory is out. */
uint8_t *ps_marks_make(const void *block);

static inline size_t ps_marks_index_of(const void *block) {
    return ((uintptr_t)block >> PS_LEAF_SHIFT) & (PS_ROOT_COUNT - 1);
}

/* The mark of a block, NULL if there is no table for its address. */
static inline uint8_t *ps_mark_at(const void *block) {
    /* acquire: pairs with ps_marks_make; the mapping is there. */
    uint8_t *table = ps_load_acquire(&ps_marks[ps_marks_index_of(block)]);
    size_t index = ((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >> PS_MARK_SHIFT;
    return PS_LIKELY(table != NULL) ? &table[index] : NULL;
}

/* The same, the table made if it is not there; NULL when memory is out. */
static inline uint8_t *ps_mark_make_at(const void *block) {
    uint8_t *mark = ps_mark_at(block);
    if (PS_UNLIKELY(mark == NULL) && ps_marks_make(block) != NULL) {
        mark = ps_mark_at(block);
    }
    return mark;
}

#endif
