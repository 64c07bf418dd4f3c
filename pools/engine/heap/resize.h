/* SPDX-License-Identifier: MIT */
/*
 * realloc and the usable size of a block. Any thread.
 *
 * The plain mode's entry points are in the table (modes.c); those of other modes are built from
 * them. A heap argument is the calling thread's, or one that detached.c has locked.
 */
#ifndef PS_HEAP_RESIZE_H
#define PS_HEAP_RESIZE_H

#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"

/* Usable bytes of a live block, 0 for NULL; a foreign pointer is handled as by free. */
size_t ps_block_usable(const void *block);

/* Grows or shrinks a block, in place if that is cheap. block: live, not NULL; bytes: > 0. On
 * failure the block is unchanged. */
void *ps_block_resize(void *block, size_t bytes);

/* ---- the plain mode ---- */

void *ps_plain_resize(void *block, size_t bytes);
size_t ps_plain_usable(const void *block);

/* Aborts unless the address is a live block of the span, as far as the block and the caller's heap
 * tell. */
void ps_resize_check(const struct ps_span *span, const void *block, enum ps_misuse_call call);

/* True for an address in a region of medium blocks. */
static inline bool ps_block_is_medium(const struct ps_slot *slot) {
    return ps_load_relaxed(&slot->run.kind) ==
           PS_RUN_MEDIUM; /* relaxed: set before the block was */
}

/* True for a block above the classes: neither one of a span nor a stray one. */
static inline bool ps_block_is_large(const struct ps_slot *slot, const void *block) {
    if (ps_block_is_medium(slot)) {
        return ps_medium_is_live(slot, block);
    }
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: as above */
    return (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block;
}

/* Usable bytes of a block outside of spans. */
size_t ps_usable_large(const struct ps_slot *slot, const void *block);

/* Resizes a block above the classes without a copy; NULL when only a copy will do. */
void *ps_resize_in_place(struct ps_slot *slot, void *block, size_t bytes);

/* Resizes a block above the classes by copying it. */
void *ps_resize_by_move(const struct ps_slot *slot, void *block, size_t bytes);

/* Resizes a block outside of spans. */
void *ps_resize_large(struct ps_slot *slot, void *block, size_t bytes);

/* Copies a block of `usable` bytes to a new one of `bytes`, and frees it. */
void *ps_resize_by_copy(void *block, size_t usable, size_t bytes);

#endif
