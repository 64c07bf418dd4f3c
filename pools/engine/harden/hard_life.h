/* SPDX-License-Identifier: MIT */
/*
 * The beginning and the end of a small block's life, from level 2 on, inlined: see hard.h. The
 * shadow byte of the block is marked as busy meanwhile. Callers: hard.c, level_3.c, which have the
 * entry points. Any thread that has the block. No locks.
 */
#ifndef PS_HARDEN_HARD_LIFE_H
#define PS_HARDEN_HARD_LIFE_H

#include "pools/engine/front/shadow.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_canary.h"
#include "pools/engine/harden/wipe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_HARD_FETCHED_AHEAD 32 /* blocks: as many as are granted in random order */

/* ---- begin ---- */

/* Makes a block live; mark: its shadow byte. */
PS_INLINE void ps_hard_set_live(void *block, uint8_t *mark, size_t block_bytes, size_t bytes) {
    uint8_t busy = ps_shadow_set_busy(mark);
    ps_canary_set(block, ps_canary_room(block_bytes), bytes);
    ps_shadow_set(mark, busy, PS_SHADOW_LIVE);
}

/* Makes a free block live, which must be unchanged since its free. */
PS_INLINE void *ps_hard_begin_life(void *block, size_t block_bytes, size_t bytes) {
    if (PS_UNLIKELY(block_bytes > PS_HARD_LOOKED_AT_WHOLE)) {
        return ps_hard_begin_long_life(block, block_bytes, bytes);
    }
    uint8_t *mark = ps_shadow_of_block(block);
    if (PS_LIKELY(ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_FREED)) &&
        PS_UNLIKELY(!ps_is_wiped(block, block_bytes))) {
        return ps_hard_report_late_write(block);
    }
    ps_hard_set_live(block, mark, block_bytes, bytes);
    return block;
}

/* ---- end ---- */

/* True if the address is that of a live block in a slab, allocated by malloc or its like, which no
 * other family has to free. is_apart: the slab is of a partition; false: of the plain heap. mark:
 * the block's shadow byte. */
PS_INLINE bool ps_hard_is_usual(const struct ps_slab *slab, bool is_apart, const void *block,
                                const uint8_t *mark) {
    /* relaxed: set before the block was allocated. */
    return ps_load_relaxed(&slab->run.kind) == PS_RUN_SLAB && (slab->extent != NULL) == is_apart &&
           ((uintptr_t)block & (((size_t)1 << PS_SHADOW_SHIFT) - 1)) == 0 && mark != NULL &&
           (ps_shadow_read(mark) & (PS_SHADOW_STATE | PS_SHADOW_FAMILY)) == PS_SHADOW_LIVE;
}

/* True when a block may have been overrun: it is live, and has no canary. mark: its shadow byte,
 * which is read first: another block may be inaccessible. */
PS_RACING bool ps_hard_is_suspect(const void *block, const uint8_t *mark, size_t room) {
    return ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_LIVE) &&
           ps_canary_slack(block, room) > room;
}

/* As the check of a neighbour in hard.c, for a block in a slab's first granule, without the check
 * itself. */
PS_INLINE bool ps_hard_is_neighbour_suspect(const char *block, const uint8_t *mark,
                                            size_t block_bytes) {
    bool is_first = (uintptr_t)block % PS_GRANULE_BYTES < block_bytes;
    return !is_first &&
           ps_hard_is_suspect(block - block_bytes, mark - (block_bytes >> PS_SHADOW_SHIFT),
                              ps_canary_room(block_bytes));
}

/* Zeroes a block whose canary and neighbour have been checked; mark: its shadow byte. */
PS_INLINE void ps_hard_end_life(void *block, uint8_t *mark, size_t block_bytes) {
    uint8_t busy = ps_shadow_set_busy(mark);
    ps_wipe(block, block_bytes);
    ps_shadow_set(mark, busy, PS_SHADOW_FREED);
}

/*
 * Blocks are granted in random order, so a program that frees them in the order of their allocation
 * reads memory in an order that no processor foresees: 50 ns instead of 24 for each node of a list.
 * The frees are expected to continue in the direction from an earlier one, if it lies nearby.
 */
PS_INLINE void ps_hard_fetch_ahead(const char *block, const char *earlier, size_t block_bytes) {
    if (((uintptr_t)block ^ (uintptr_t)earlier) < PS_GRANULE_BYTES) {
        ptrdiff_t distance = (ptrdiff_t)(block_bytes * PS_HARD_FETCHED_AHEAD);
        __builtin_prefetch(block + (earlier < block ? distance : -distance), 1);
    }
}

#endif
