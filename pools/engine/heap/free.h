/* SPDX-License-Identifier: MIT */
/*
 * Free beyond the fast path. Any thread; errno is kept.
 *
 * The plain mode's entry points stand in the table (modes.c); those of other modes are made of
 * its pieces. A heap that is an argument is that of the calling thread, or one that detached.c
 * holds locked.
 */
#ifndef PS_HEAP_FREE_H
#define PS_HEAP_FREE_H

#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/pop.h"

/* Slow path of free: what owner_key says, read from the slot of block, is not that the block goes
 * to a span of this heap at once. */
void ps_heap_free_slow(struct ps_span *span, void *block, uintptr_t owner_key);

/* Slow path of free: no block of this span can be freed here, unless its word only looks
 * like a link and is none. */
void ps_heap_free_doubtful(struct ps_span *span, void *block);

/* Slow path of free: the span's countdown is over. */
void ps_heap_free_event(struct ps_span *span, void *block);

/* ---- the plain mode ---- */

void ps_plain_free(struct ps_span *span, void *block, uintptr_t owner_key);

/* Aborts when no block of a span can be freed at this address, as far as the block and the caller's
 * heap tell. */
static inline void ps_free_check(const struct ps_span *span, const void *block) {
    if (PS_UNLIKELY(!ps_span_has_block(span, block) || ps_heap_is_free(span, block))) {
        ps_misuse_free(span, block);
    }
}

/* A block that may be freed goes to its span: of another owner, or of a heap that this thread has
 * only just got. */
void ps_heap_free_foreign_owner(struct ps_span *span, void *block);

/* Frees a block that lies in no span. */
void ps_free_large(struct ps_slot *slot, void *block);

/* A block of a class with LIFO cache, in a span of this heap. */
void ps_heap_free_lifo(struct ps_heap *heap, uint32_t class_index, struct ps_slot *slot,
                       void *block);

#endif
