/* SPDX-License-Identifier: MIT */
/*
 * Shadow bytes: one for every 16 bytes of addresses that hold small blocks, out of band. One table
 * for each leaf of the page map: 2 MiB of addresses, of which a page is touched for each granule. A
 * process has one use for them:
 *
 * Where blocks are hardened, the byte of a block's first 16 bytes says what the block is.
 *   bits 0..1  BUSY, being made or ended, or never made; LIVE, its canary is as it was left; FREED,
 *              it is zero, except for a link in its first word
 *        2..3  which family of functions made it (large.h)
 *        4..7  lives so far, modulo 16: a thread that examines a block that others may use finds
 *              the same byte before and after, or has learnt nothing
 * A byte each, so that threads that mark neighbours need no read-modify-write: a locked bit was
 * tried, and cost 10 ns for each block's life. Of two threads that free one block at the same
 * instant both may find it live; a later one does not.
 *
 * Where blocks are recorded, it holds what the block was asked for (record/record_sizes.h).
 *
 * Callers: harden, record. Any thread. No locks.
 */
#ifndef PS_HEAP_SHADOW_H
#define PS_HEAP_SHADOW_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_SHADOW_SHIFT 4 /* a mark for so many bytes: 16 */

/* Makes the table for a block's address; NULL when memory is out. The block lies in a span. */
uint8_t *ps_shadow_make(const void *block);

/* Where the table for an address is noted; always NULL where nothing of ours lies. */
static inline uint8_t **ps_shadow_place(const void *block) { return ps_page_map_shadow(block); }

/* The mark of a block, NULL if there is no table for its address. */
static inline uint8_t *ps_shadow_at(const void *block) {
    /* acquire: pairs with ps_shadow_make; the mapping is there. */
    uint8_t *table = ps_load_acquire(ps_shadow_place(block));
    size_t index = ((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >> PS_SHADOW_SHIFT;
    return PS_LIKELY(table != NULL) ? &table[index] : NULL;
}

/* The same, the table made if it is not there; NULL when memory is out. */
static inline uint8_t *ps_shadow_make_at(const void *block) {
    uint8_t *mark = ps_shadow_at(block);
    if (PS_UNLIKELY(mark == NULL) && ps_shadow_make(block) != NULL) {
        mark = ps_shadow_at(block);
    }
    return mark;
}

/* ---- what small blocks are, where they are hardened ---- */

#define PS_SHADOW_LIVE 1
#define PS_SHADOW_FREED 2
#define PS_SHADOW_STATE 3
#define PS_SHADOW_FAMILY_SHIFT 2
#define PS_SHADOW_FAMILY (3 << PS_SHADOW_FAMILY_SHIFT)
#define PS_SHADOW_LIFE 16

/* What stands in a mark. */
static inline uint8_t ps_shadow_read(const uint8_t *mark) {
    return ps_load_acquire(mark); /* acquire: pairs with ps_shadow_set; the block is as it says */
}

static inline bool ps_shadow_is(uint8_t seen, uint8_t state) {
    return (seen & PS_SHADOW_STATE) == state;
}

/* The family a live block was allocated by. */
static inline uint8_t ps_shadow_family(const uint8_t *mark) {
    /* relaxed: written before the block was returned; the caller holds the block. Atomic, since a
     * thread that searches for a free block may compare the same byte (zero.c). */
    return (uint8_t)((ps_load_relaxed(mark) & PS_SHADOW_FAMILY) >> PS_SHADOW_FAMILY_SHIFT);
}

/* The mark of a live block; NULL when none starts at this address, any address. */
static inline uint8_t *ps_shadow_of_live(const void *block) {
    uint8_t *mark = ps_shadow_at(block);
    bool is_one = mark != NULL && ((uintptr_t)block & (((size_t)1 << PS_SHADOW_SHIFT) - 1)) == 0 &&
                  ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_LIVE);
    return PS_LIKELY(is_one) ? mark : NULL;
}

/* What follows is written to the block while it is BUSY. Processors that let it overtake the mark
 * are the reason why a look that finds something is repeated. Returns the mark. */
static inline uint8_t ps_shadow_set_busy(uint8_t *mark) {
    /* relaxed: the thread that frees the block was handed it, and with it this mark. */
    uint8_t before = ps_load_relaxed(mark);
    uint8_t busy = (uint8_t)((before & ~(PS_SHADOW_LIFE - 1)) + PS_SHADOW_LIFE);
    ps_store_relaxed(mark, busy); /* relaxed: as above */
    PS_BARRIER();
    return busy;
}

/* Ends being BUSY; busy: what ps_shadow_set_busy returned. */
static inline void ps_shadow_set(uint8_t *mark, uint8_t busy, uint8_t state) {
    /* release: pairs with ps_shadow_read. */
    ps_store_release(mark, (uint8_t)(busy | state));
}

#endif
