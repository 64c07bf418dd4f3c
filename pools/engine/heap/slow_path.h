/* SPDX-License-Identifier: MIT */
/*
 * Calls beyond the fast path (fast_path.h): allocation, free, realloc and the usable size. Any
 * thread. When memory is exhausted, functions that allocate return NULL with errno ENOMEM and
 * change nothing; free preserves errno.
 *
 * A heap argument is the calling thread's, or one that detached.c has locked. Callers: shim/,
 * fast_path.h, the modes. Locks only through the layers below.
 */
#ifndef PS_HEAP_SLOW_PATH_H
#define PS_HEAP_SLOW_PATH_H

#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"

/* ---- allocation ---- */

/* Zeroed; 16-byte aligned (8 for up to 8 bytes). Size 0 returns a unique block. */
void *ps_block_zalloc(size_t bytes);

/* align: power of two. */
void *ps_block_alloc_aligned(size_t bytes, size_t align);

/* Slow path of alloc: the request exceeds every class, or this thread may not take the fast
 * path. */
void *ps_heap_alloc_slow(size_t bytes);

/* Requests up to so many bytes that no class serves reach the mode by its refill hook. At first
 * PS_CLASS_BYTES_LIMIT; SIZE_MAX where the mode must see each of them, the largest class where it
 * needs to see none. Any thread, at any time. */
void ps_alloc_set_refill_max(size_t bytes);

extern PS_HIDDEN size_t ps_alloc_x_refill_max;
static inline size_t ps_alloc_refill_max(void) {
    return ps_load_once(&ps_alloc_x_refill_max); /* relaxed: as in ps_alloc_set_refill_max */
}

/* ---- free ---- */

/* Slow path of free: owner_key, read from the slot of block, is not that of a span into which this
 * heap frees at once. */
void ps_heap_free_slow(void *block, struct ps_span *span, uintptr_t owner_key);

/* Slow path of free: the address is no live block of the span, unless its first word only resembles
 * a link (confirm.h). */
void ps_heap_free_doubtful(void *block, struct ps_span *span);

/* Slow path of free: the span's countdown has reached zero. */
void ps_heap_free_event(void *block, struct ps_span *span);

/* The same, within a call that accesses the heap afterwards. */
void ps_heap_free_event_within(void *block, struct ps_span *span);

/* ---- realloc ---- */

/* Usable bytes of a live block, 0 for NULL; a foreign pointer is handled as by free. */
size_t ps_block_usable(const void *block);

/* Grows or shrinks a block, in place if that is cheap. block: live, not NULL; bytes: > 0. On
 * failure the block is unchanged. */
void *ps_block_resize(void *block, size_t bytes);

/* ---- parts of it ---- */

/* Aborts unless a block of the span can be freed at this address, as far as the block and the
 * caller's heap tell. */
static inline void ps_free_check(const struct ps_span *span, const void *block) {
    if (PS_UNLIKELY(!ps_span_has_block(span, block) || ps_heap_is_free(span, block))) {
        ps_misuse_free(span, block);
    }
}

#endif
