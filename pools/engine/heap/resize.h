/* SPDX-License-Identifier: MIT */
/*
 * realloc and the usable size of a block: in the plain mode, and the parts that other modes use.
 * The entry points are in slow_path.h. Any thread, within a call (ps_thread_enter). No locks of its
 * own.
 */
#ifndef PS_HEAP_RESIZE_H
#define PS_HEAP_RESIZE_H

#include "pools/engine/page/page_map.h"
#include "pools/engine/small/link.h"
#include "pools/engine/small/span.h"

#include <stdbool.h>
#include <stddef.h>

/* block: live, not NULL; bytes: > 0. On failure the block is unchanged. */
void *ps_plain_resize(void *block, size_t bytes);
size_t ps_plain_usable(const void *block);

/* ---- parts of it that other modes use ---- */

/* Aborts unless the address is a live block of the span, as far as the block and the caller's heap
 * tell. */
void ps_resize_check(const struct ps_span *span, const void *block, enum ps_misuse_call call);

/* True when a block may be resized in place: the length fits, and uses at least half of the room.
 */
static inline bool ps_resize_stays(size_t room, size_t bytes) {
    return bytes <= room && bytes >= room / 2;
}

/* Usable bytes of a block outside of spans. */
size_t ps_usable_large(const struct ps_slot *slot, const void *block);

/* Resizes a block above the classes without a copy; NULL when only a copy will do. */
void *ps_resize_in_place(struct ps_slot *slot, void *block, size_t bytes);

/* Resizes a block above the classes by copying it. */
void *ps_resize_by_move(const struct ps_slot *slot, void *block, size_t bytes);

/* Resizes a block outside of spans. */
void *ps_resize_large(struct ps_slot *slot, void *block, size_t bytes);

/* Copies a block of `usable` bytes to a new one of `bytes`, and frees it. If there is no memory for
 * a shorter one, the block is unchanged. */
void *ps_resize_by_copy(void *block, size_t usable, size_t bytes);

#endif
