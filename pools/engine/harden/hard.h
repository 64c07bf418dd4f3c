/* SPDX-License-Identifier: MIT */
/*
 * Hardened blocks (POOLSHIM_HARDEN), at a price. What each level adds:
 *
 * - Level 1: malloc takes the usual path, free one of its own (level_1.c), except for the blocks
 *   of a free streak, which is zeroed whole when it ends. A block is zeroed when it is freed.
 *   Freed large blocks wait (hard_large.h), those with a mapping of their own are unmapped. Blocks
 *   of no size are inaccessible (zero.h); what a caller says of a size must be so (promise.c). At
 *   the end of the process free blocks must be zero (hard_sweep.c).
 * - Level 2: both take the slow path, and small blocks pass through here on their way from and to
 *   their spans, one by one. Which are live, and made by which functions, is known out of band. A
 *   freed block waits until a number of others of its class have been freed, then a random one
 *   goes: it is handed out again by this thread, if few others are ready, or goes home to its span.
 *   It must still be zero when it is handed out, which happens in random order.
 *   What is left of a block behind the bytes asked for ends with a canary, looked at when the block
 *   is freed or resized, when its neighbour is freed, and at the end of the process. The last page
 *   of each span, most of a class's first spans (span_room.h), what lies behind each large block
 * and what was never handed out is inaccessible; so are freed large blocks while they wait.
 * - Level 3: blocks wait longer, and some are guarded samples (guard.h).
 *
 * Nothing of this is on the hit paths, where threads do not come: see struct ps_thread_words. Hot
 * runs and LIFO cache are off from level 2 on. (Waiting blocks, random order, zeroing and
 * looking again after hardened_malloc; marks of live blocks out of band after DieHarder.)
 *
 * Callers: level_1.c and level_2.c, which have the entry points and hooks of these modes. Owner of
 * the heap only, but for the live marks. No locks.
 */
#ifndef PS_HARDEN_HARD_H
#define PS_HARDEN_HARD_H

#include "pools/engine/harden/wipe.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/small/misuse.h"

/* Random, drawn at start: hard_canary.h. */
extern PS_HIDDEN uint64_t ps_canary_secret;

extern PS_HIDDEN uint32_t ps_hard_level;

/* What a block holds beside the bytes asked for: the canary's, or 0. */
extern PS_HIDDEN size_t ps_hard_extra_bytes;

/* Whether blocks pass through here. False at level 1, which is level_1.c: what
 * holds at every level asks ps_hard_level != 0. */
static inline bool ps_hard_is_on(void) { return ps_hard_level >= PS_HARDEN_CHECK_BLOCKS; }

/* Once, before the first heap. */
void ps_hard_start(const struct ps_config *config);

/* What a heap needs for its waiting blocks; NULL when memory is out: then none wait. */
struct ps_hard *ps_hard_make(void);

/* A block of a class that holds `bytes`, and the extra ones. class_index: PS_CLASS_NONE for what no
 * class holds. sample_bytes: `bytes`, or as ps_heap_refill takes them for the sake of alignment.
 * NULL with errno ENOMEM. */
void *ps_hard_alloc(struct ps_heap *heap, uint32_t class_index, size_t bytes, size_t sample_bytes);

/* A block that holds so many bytes, which with the extra ones a class may hold. */
void *ps_hard_malloc(struct ps_heap *heap, size_t bytes);

/* The class of a request, PS_CLASS_NONE if there is none; every block has 16 bytes and more. */
static inline uint32_t ps_hard_class_of(size_t bytes) {
    return ps_size_class_of((bytes != 0 ? bytes : 1) + ps_hard_extra_bytes);
}

/*
 * A block of this span is freed. Returns the one that goes home for it now, of the same class, or
 * NULL. heap: the caller's; NULL: none of its own.
 */
void *ps_hard_pass(struct ps_heap *heap, struct ps_span *span, void *block);

/* The shortest way through free: false, and nothing was done, for what is no live small block of
 * malloc's, of any address, and for a thread without a heap. */
bool ps_hard_free(struct ps_slot *slot, void *block);

/* Bytes that the program may use of a live block, about which `call` asks. */
size_t ps_hard_usable(const struct ps_span *span, const void *block, enum ps_misuse_call call);

/* Makes a live block hold `bytes` where it stands. */
void ps_hard_resize(const struct ps_span *span, void *block, size_t bytes);

/* Whether the canary of a live block, and the slack before it, are as they were left. */
bool ps_hard_is_intact(const struct ps_span *span, const void *block);

/* ---- hard_sweep.c ---- */

/* A block that any thread may be using: aborts when it was written to where, or when, that may not
 * be. */
void ps_hard_check_other(const struct ps_span *span, const void *block);

/* At the end of the process: examines the blocks that no later call will examine. Takes no time
 * worth mentioning at level 0, and is bounded at all others. */
void ps_hard_sweep(void);

/* ---- hard.c ---- */

/* Sends what waits in a class, or in all, home. */
void ps_hard_flush(struct ps_heap *heap, uint32_t class_index);

void ps_hard_flush_all(struct ps_heap *heap);

/* Blocks of a class that wait, or are drawn already. */
size_t ps_hard_count(const struct ps_heap *heap, uint32_t class_index);

#endif
