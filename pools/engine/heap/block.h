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

/* Usable bytes that a new block would have, or a few less; never below `bytes`. align: power of
 * two. 0: the sum would overflow. */
size_t ps_block_good_bytes(size_t bytes, size_t align);

/* Grows or shrinks a block, in place if that is cheap. block: live, not NULL; bytes: > 0. On
 * failure the block is unchanged. */
void *ps_block_resize(void *block, size_t bytes);

#endif
