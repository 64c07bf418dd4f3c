/* SPDX-License-Identifier: MIT */
/*
 * A byte for every 16 bytes of addresses that hold small blocks, out of band: whether a block is
 * live where blocks are hardened (hard_marks.h), what it was asked for where they are recorded
 * (record_marks.h); never both. One table for each leaf of the page map: 2 MiB of addresses, of
 * which a page is touched for each slice.
 * Callers: hard_marks.h, record_marks.h. Any thread. No locks.
 */
#ifndef PS_HEAP_MARKS_H
#define PS_HEAP_MARKS_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"

#include <stddef.h>
#include <stdint.h>

#define PS_MARK_SHIFT 4 /* a mark for so many bytes: 16 */

/* Makes the table for a block's address; NULL when memory is out. The block lies in a span. */
uint8_t *ps_marks_make(const void *block);

/* Where the table for an address is noted; always NULL where nothing of ours lies. */
static inline uint8_t **ps_marks_place(const void *block) { return ps_page_map_marks(block); }

/* The mark of a block, NULL if there is no table for its address. */
static inline uint8_t *ps_mark_at(const void *block) {
    /* acquire: pairs with ps_marks_make; the mapping is there. */
    uint8_t *table = ps_load_acquire(ps_marks_place(block));
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
