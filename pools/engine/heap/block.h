/* SPDX-License-Identifier: MIT */
/*
 * The entry points of libc's calls that have no fast path; front_path.h has ps_heap_alloc and
 * ps_heap_free. Each serves calls from before relocation (bootstrap.h), starts the engine if it has
 * not started, and calls the mode's row.
 *
 * Any thread. When memory is exhausted, functions that allocate return NULL with errno ENOMEM and
 * change nothing. Callers: shim/, the engine's own realloc and tests. No locks of its own.
 */
#ifndef PS_HEAP_BLOCK_H
#define PS_HEAP_BLOCK_H

#include <stddef.h>

/* Zeroed; 16-byte aligned (8 for up to 8 bytes). Size 0 returns a unique block. */
void *ps_block_zalloc(size_t bytes);

/* align: power of two. */
void *ps_block_alloc_aligned(size_t bytes, size_t align);

/* Usable bytes of a live block, 0 for NULL; a foreign pointer is handled as by free. */
size_t ps_block_usable(const void *block);

/* Usable bytes of the block that a request gets, if memory is not exhausted and the request is not
 * sampled; 0: none does, from PS_BLOCK_BYTES_MOST bytes, or such an alignment, on. A request of so
 * many bytes gets the same block. align: power of two. The engine starts. Cost: some table
 * look-ups; above 16 a walk over the classes. */
#define PS_BLOCK_BYTES_MOST ((size_t)7 << 60)
size_t ps_block_length(size_t bytes, size_t align);

/* Resizes a live block without moving it to a length that ps_block_length returns, if that is
 * possible. Returns its usable bytes after that. block: not NULL. */
size_t ps_block_resize_in_place(void *block, size_t bytes);

/* Copies the contents of a live block, up to `bytes`, to `copy`, and frees the block. copy: NULL,
 * of a failed request, leaves the block unchanged. Returns copy. */
void *ps_block_move(void *copy, void *block, size_t bytes);

/* Grows or shrinks a block, in place if that is cheap. block: live, not NULL; bytes: > 0. On
 * failure the block is unchanged. */
void *ps_block_resize(void *block, size_t bytes);

#endif
