/* SPDX-License-Identifier: MIT */
/*
 * free, realloc and the usable size of blocks above the size classes, and of addresses that are no
 * blocks. Decides for realloc whether a block is returned as it is, resized in place or moved, and
 * how much room it gets. Any thread. No locks of its own. Callers: front_path_plain.c, the modes.
 */
#ifndef PS_HEAP_LARGE_PATH_H
#define PS_HEAP_LARGE_PATH_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>

/* Frees a block outside of slabs, or handles a stray address. slot: its slot, here and below. */
void ps_free_large(struct ps_slot *slot, void *block);

/* True when a block may be resized in place: the length fits, and uses at least half of the room.
 */
static inline bool ps_resize_stays(size_t room, size_t bytes) {
    return bytes <= room && bytes >= room / 2;
}

/* Usable bytes of a block outside of slabs. */
size_t ps_usable_large(const struct ps_slot *slot, const void *block);

/* Resizes a block above the classes without a copy; NULL when only a copy will do. */
void *ps_resize_in_place(struct ps_slot *slot, void *block, size_t bytes);

/* Resizes a block above the classes to a length that a request of `bytes` gets, without moving it.
 * Returns false, with the block unchanged, where that is another kind of block, or what lies after
 * the block is in use. Not for modes that count or check resized blocks. */
bool ps_resize_exactly(struct ps_slot *slot, void *block, size_t bytes);

/* The entry point of modes in which no block is resized so. */
size_t ps_resize_refused(void *block, size_t bytes);

/* Resizes a block above the classes by copying it. */
void *ps_resize_by_move(const struct ps_slot *slot, void *block, size_t bytes);

/* Resizes a block outside of slabs. */
void *ps_resize_large(struct ps_slot *slot, void *block, size_t bytes);

/* Copies a block of `usable` bytes to a new one of `bytes`, and frees it. If there is no memory for
 * a shorter one, the block is unchanged. */
void *ps_resize_by_copy(void *block, size_t usable, size_t bytes);

#endif
