/* SPDX-License-Identifier: MIT */
/*
 * Blocks of every size: what the entry points need beyond the fast path. Any thread. All
 * functions that allocate return NULL with errno ENOMEM when memory is out and change nothing.
 */
#ifndef PS_HEAP_BLOCKS_H
#define PS_HEAP_BLOCKS_H

#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes zeroed; 16-byte aligned (8 for up to 8 bytes). Size 0 gives a unique block. */
void *ps_block_zalloc(size_t bytes);

/* align: power of two. */
void *ps_block_alloc_aligned(size_t bytes, size_t align);

/* Usable bytes of a live block, 0 for NULL; a foreign pointer is handled as free does. */
size_t ps_block_usable(const void *block);

/* Grows or shrinks, in place where that is cheap. block: live, not NULL; bytes: > 0. On failure
 * the block is untouched. */
void *ps_block_resize(void *block, size_t bytes);

#endif
