/* SPDX-License-Identifier: MIT */
/*
 * Hardened blocks (POOLSHIM_HARDEN). Each level adds to the one before:
 *
 *   - Level 1: malloc takes the usual path, free one of its own (level_1.c). A block is zeroed when
 *     it is freed; free streaks are off. Freed large blocks are quarantined (hard_large.h); those
 * with a mapping of their own are unmapped. Blocks of size 0 are inaccessible (stray.h); a size
 * passed to free is checked (promise.c). At the end of the process free blocks must be zero
 * (hard_sweep.c).
 *   - Level 2: malloc and free take no fast path, and small blocks pass through this file one by
 *     one on their way from and to fronts and the store. Shadow bytes record which blocks are live,
 *     and the family of functions that made them. A freed block is quarantined until a number of
 *     others of its class have been freed, then a random one leaves (hard_quarantine.h). It must
 *     still be zero when it is granted, which happens in random order. The slack of a block after
 *     the requested bytes ends with a canary, which is checked when the block is freed or resized,
 *     when its neighbour is freed, and at the end of the process. Inaccessible are: the last page
 *     of each slab, most of a class's first slabs (front/slab_room.h), the addresses after each
 *     large block, addresses that were never granted, and large blocks in quarantine.
 *   - Level 3: the quarantine is longer, some blocks are guarded samples (guard.h), and small
 * blocks lie in parts of the heap by their call site (site.h, level_3.c).
 *
 * The fast paths have no code for this; hardened threads do not take them: see has_fast_alloc and
 * has_fast_free of heap/mode.h. From level 2 on there are no free streaks and no windows.
 * (Quarantine, random order, zeroing and the check on reuse follow hardened_malloc; shadow bytes of
 * live blocks follow DieHarder.)
 *
 * Callers: level_1.c to level_3.c, which have the entry points and hooks of these modes. Any
 * thread. No locks of its own.
 */
#ifndef PS_HARDEN_HARD_H
#define PS_HARDEN_HARD_H

#include "pools/engine/base/config.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/harden/wipe.h"
#include "pools/engine/small/mark.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Random, drawn at start: hard_canary.h. The second is one byte, repeated, that is not ASCII. */
extern PS_HIDDEN uint64_t ps_canary_secret;
extern PS_HIDDEN uint64_t ps_slack_pattern;

extern PS_HIDDEN uint32_t ps_hard_level;

/* Bytes of a block beyond the requested ones: the canary's, or 0. */
extern PS_HIDDEN size_t ps_hard_extra_bytes;

/* True when blocks pass through this file. False at level 1, which is level_1.c: conditions for
 * every level test ps_hard_level != 0. */
static inline bool ps_hard_is_on(void) { return ps_hard_level >= PS_HARDEN_CHECK_BLOCKS; }

/* Called once, before the first block. */
void ps_hard_start(const struct ps_config *config);

/* Allocates a block of a class for `bytes` and the extra ones. class_index: PS_CLASS_NONE if no
 * class fits. sample_bytes: of a guarded sample, `bytes` or the aligned size. NULL with errno
 * ENOMEM. */
void *ps_hard_alloc(uint32_t class_index, size_t bytes, size_t sample_bytes);

/* Parts of it. The first serves a request of a class that was counted, the second one that no class
 * serves, or of no bytes. The third shuffles blocks from the store, and zeroes those that need it.
 */
void *ps_hard_alloc_class(uint32_t class_index, size_t bytes, size_t sample_bytes);
void *ps_hard_alloc_unclassed(size_t bytes);
void ps_hard_prepare(void **blocks, size_t count);

/* The largest request that a class serves. */
extern PS_HIDDEN size_t ps_hard_most_bytes;

/* Returns a block that leaves the quarantine to the thread's front, or to its partition. */
void ps_hard_leave(uint32_t class_index, void *block);

/* Quarantines a zeroed block, and makes the thread's shard if there is none. */
void ps_hard_hold_first(uint32_t class_index, void *block);

/* The same as ps_hard_alloc in a partition; its part for a front that has no block, which returns a
 * free block. */
void *ps_hard_alloc_in(struct ps_partition *partition, uint32_t class_index, size_t bytes);
void *ps_hard_take_in(struct ps_partition *partition, uint32_t class_index);

/* The entry points alloc and free_block of these levels: mode.h. */
void *ps_hard_malloc(size_t bytes);
void ps_hard_free(void *block);

/* Usable bytes of a live block; `call` is named in reports. */
size_t ps_hard_usable(const struct ps_slab *slab, const void *block, enum ps_misuse_call call);

/* Resizes a live block in place. */
void ps_hard_resize(const struct ps_slab *slab, void *block, size_t bytes);

/* Parts of hard_life.h: for blocks above PS_HARD_LOOKED_AT_WHOLE, and the report of a free block
 * that was written to, not NORETURN: a tail call. */
#define PS_HARD_LOOKED_AT_WHOLE ((size_t)1 << 10)
void *ps_hard_begin_long_life(void *block, size_t block_bytes, size_t bytes);
void *ps_hard_report_late_write(const void *block);

/* ---- hard_sweep.c ---- */

/* Checks a block that another thread may be using; aborts when it was overwritten out of bounds or
 * after its free. */
void ps_hard_check_other(const struct ps_slab *slab, const void *block);

/* At the end of the process: checks the blocks that no later call will check. Negligible at level
 * 0, bounded at all others. */
void ps_hard_sweep(void);

#endif
