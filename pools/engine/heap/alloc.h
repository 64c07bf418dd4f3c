/* SPDX-License-Identifier: MIT */
/*
 * Allocation beyond the fast path. Any thread. When memory is exhausted, all functions return NULL
 * with errno ENOMEM and change nothing.
 *
 * The plain mode's entry points are in the table (modes.c); those of other modes are built from
 * them. A heap argument is the calling thread's, or one that detached.c has locked.
 */
#ifndef PS_HEAP_ALLOC_H
#define PS_HEAP_ALLOC_H

#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"

/* Zeroed; 16-byte aligned (8 for up to 8 bytes). Size 0 returns a unique block. */
void *ps_block_zalloc(size_t bytes);

/* align: power of two. */
void *ps_block_alloc_aligned(size_t bytes, size_t align);

/* Slow path of alloc: the request exceeds every class, or this thread may not take the fast
 * path. */
void *ps_heap_alloc_slow(size_t bytes);

/* Requests up to it that no class serves reach the mode by its refill hook: PS_CLASS_BYTES_LIMIT,
 * SIZE_MAX where the mode must see each of them. Written once, at start. */
extern PS_HIDDEN size_t ps_alloc_refill_max_bytes;

/* ---- the plain mode ---- */

void *ps_plain_alloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);

#endif
