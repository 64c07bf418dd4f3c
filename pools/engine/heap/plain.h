/* SPDX-License-Identifier: MIT */
/*
 * The plain mode: its entry points, for the table (modes.c), and the pieces of them that the entry
 * points of other modes are made of. A heap that is an argument is that of the calling thread, or
 * the one that late.c holds locked. Bodies: alloc.c, free.c, resize.c.
 */
#ifndef PS_HEAP_PLAIN_H
#define PS_HEAP_PLAIN_H

#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/pop.h"

/* ---- alloc.c ---- */

void *ps_plain_alloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);

/* ---- free.c ---- */

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

/* A block of a class with recent blocks, in a span of this heap. */
void ps_heap_free_recent(struct ps_heap *heap, uint32_t class_index, struct ps_slot *slot,
                         void *block);

/* ---- resize.c ---- */

void *ps_plain_resize(void *block, size_t bytes);
size_t ps_plain_usable(const void *block);

/* Aborts when the program cannot hold a block of the span at this address, as far as the block and
 * the caller's heap tell. */
void ps_resize_check(const struct ps_span *span, const void *block, enum ps_misuse_call call);

/* A large block: not one of a span, nor a stray one. */
static inline bool ps_block_is_large(const struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    return (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block;
}

/* What a block in no span was asked for, or has room for. */
size_t ps_usable_large(const struct ps_slot *slot, const void *block);

/* Resizes a block in no span. */
void *ps_resize_large(struct ps_slot *slot, void *block, size_t bytes);

/* Moves what a block holds, `usable` bytes, to a new one of `bytes`, and frees it. */
void *ps_resize_by_copy(void *block, size_t usable, size_t bytes);

#endif
