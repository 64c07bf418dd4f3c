/* SPDX-License-Identifier: MIT */
/*
 * Shadow bytes: one for every 16 bytes of the addresses of small blocks, apart from the blocks. One
 * table per leaf of the page map: 2 MiB of addresses, of which one page is touched per granule. A
 * process has one use for them.
 *
 * Hardened: the byte of a block's first 16 bytes gives the state of the block.
 *
 *   bits 0..1  BUSY: being made or ended, or never made since its slab began. LIVE: its canary is
 *              intact. FREED: it is zero
 *        2..3  family of functions that made it (large.h)
 *        4..7  number of lives so far, modulo 16: a thread that examines a block of another thread
 *              must read the same byte before and after, otherwise the result is void
 *
 * A byte each, so that threads that mark neighbouring blocks need no read-modify-write: a locked
 * bit was tried, and cost 10 ns per life of a block. Two threads that free one block at the same
 * instant may both find it live; a later free does not.
 *
 * Recorded: the byte is the requested size of the block (record/record_sizes.h).
 *
 * Callers: harden, record. Any thread. No locks.
 */
#ifndef PS_FRONT_SHADOW_H
#define PS_FRONT_SHADOW_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_SHADOW_SHIFT 4 /* 16 bytes per shadow byte */

/* Creates the table for a block's address; NULL when memory is exhausted. The block lies in a slab.
 */
uint8_t *ps_shadow_make(const void *block);

/* The entry for the table of an address; always NULL for addresses that are not ours. */
static inline uint8_t **ps_shadow_place(const void *block) { return ps_page_map_shadow(block); }

/* The shadow byte of a block, NULL if its address has no table. */
static inline uint8_t *ps_shadow_at(const void *block) {
    /* acquire: pairs with ps_shadow_make; the mapping exists. */
    uint8_t *table = ps_load_acquire(ps_shadow_place(block));
    size_t index = ((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >> PS_SHADOW_SHIFT;
    return PS_LIKELY(table != NULL) ? &table[index] : NULL;
}

/* The shadow byte of a block of a slab, whose table exists while blocks are hardened. */
PS_INLINE uint8_t *ps_shadow_of_block(const void *block) {
    /* acquire: as in ps_shadow_at. */
    uint8_t *table = ps_load_acquire(ps_shadow_place(block));
    return &table[((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >> PS_SHADOW_SHIFT];
}

/* As ps_shadow_at, but creates a missing table; NULL when memory is exhausted. */
static inline uint8_t *ps_shadow_make_at(const void *block) {
    uint8_t *mark = ps_shadow_at(block);
    if (PS_UNLIKELY(mark == NULL) && ps_shadow_make(block) != NULL) {
        mark = ps_shadow_at(block);
    }
    return mark;
}

/* ---- states of small blocks, while they are hardened ---- */

#define PS_SHADOW_LIVE 1
#define PS_SHADOW_FREED 2
#define PS_SHADOW_STATE 3
#define PS_SHADOW_FAMILY_SHIFT 2
#define PS_SHADOW_FAMILY (3 << PS_SHADOW_FAMILY_SHIFT)
#define PS_SHADOW_LIFE 16

/* Reads a shadow byte. */
static inline uint8_t ps_shadow_read(const uint8_t *mark) {
    return ps_load_acquire(mark); /* acquire: pairs with ps_shadow_set */
}

static inline bool ps_shadow_is(uint8_t seen, uint8_t state) {
    return (seen & PS_SHADOW_STATE) == state;
}

/* The family a live block was allocated by. */
static inline uint8_t ps_shadow_family(const uint8_t *mark) {
    /* relaxed: written before the block was returned; the caller owns the block. Atomic, since a
     * thread that searches for a free block may compare the same byte (stray.c). */
    return (uint8_t)((ps_load_relaxed(mark) & PS_SHADOW_FAMILY) >> PS_SHADOW_FAMILY_SHIFT);
}

/* The shadow byte of a live block; NULL when none starts at this address, which may be any. */
static inline uint8_t *ps_shadow_of_live(const void *block) {
    uint8_t *mark = ps_shadow_at(block);
    bool is_one = mark != NULL && ((uintptr_t)block & (((size_t)1 << PS_SHADOW_SHIFT) - 1)) == 0 &&
                  ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_LIVE);
    return PS_LIKELY(is_one) ? mark : NULL;
}

/* Marks a block as BUSY before it is written to. Some processors let these writes overtake the
 * mark, which is why a check that fails is repeated. Returns the byte. */
static inline uint8_t ps_shadow_set_busy(uint8_t *mark) {
    /* relaxed: the freeing thread received the block, and this byte with it. */
    uint8_t before = ps_load_relaxed(mark);
    uint8_t busy = (uint8_t)((before & ~(PS_SHADOW_LIFE - 1)) + PS_SHADOW_LIFE);
    ps_store_relaxed(mark, busy); /* relaxed: as above */
    PS_BARRIER();
    return busy;
}

/* Ends BUSY; busy: the result of ps_shadow_set_busy. */
static inline void ps_shadow_set(uint8_t *mark, uint8_t busy, uint8_t state) {
    /* release: pairs with ps_shadow_read. */
    ps_store_release(mark, (uint8_t)(busy | state));
}

#endif
