/* SPDX-License-Identifier: MIT */
/*
 * Free beyond the fast path. Any thread; errno is kept.
 *
 * The plain mode's entry points are in the table (modes.c); those of other modes are built from
 * them. A heap argument is the calling thread's, or one that detached.c has locked.
 */
#ifndef PS_HEAP_FREE_H
#define PS_HEAP_FREE_H

#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"

/* Slow path of free: what owner_key says, read from the slot of block, is not that the block goes
 * to a span of this heap at once. */
void ps_heap_free_slow(void *block, struct ps_span *span, uintptr_t owner_key);

/* Slow path of free: no block of this span can be freed here, unless its word only has the form of
 * a link and is none. */
void ps_heap_free_doubtful(void *block, struct ps_span *span);

/* Slow path of free: the span's countdown is over. */
void ps_heap_free_event(void *block, struct ps_span *span);

/* ---- the plain mode ---- */

void ps_plain_free(struct ps_span *span, void *block, uintptr_t owner_key);

/* Aborts unless a block of the span can be freed at this address, as far as the block and the
 * caller's heap tell. */
static inline void ps_free_check(const struct ps_span *span, const void *block) {
    if (PS_UNLIKELY(!ps_span_has_block(span, block) || ps_heap_is_free(span, block))) {
        ps_misuse_free(span, block);
    }
}

/* Returns a valid block to its span, which has another owner, or is of a heap that this thread has
 * just received. */
void ps_heap_free_foreign_owner(struct ps_span *span, void *block);

/* Frees a block outside of spans. */
void ps_free_large(struct ps_slot *slot, void *block);

#endif
