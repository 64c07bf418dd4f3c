/* SPDX-License-Identifier: MIT */
/*
 * Allocation beyond the fast path. Any thread. All functions return NULL with errno ENOMEM when
 * memory is out and change nothing.
 *
 * The plain mode's entry points stand in the table (modes.c); those of other modes are made of
 * its pieces. A heap that is an argument is that of the calling thread, or one that detached.c
 * holds locked.
 */
#ifndef PS_HEAP_ALLOC_H
#define PS_HEAP_ALLOC_H

#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/pop.h"

/* bytes zeroed; 16-byte aligned (8 for up to 8 bytes). Size 0 gives a unique block. */
void *ps_block_zalloc(size_t bytes);

/* align: power of two. */
void *ps_block_alloc_aligned(size_t bytes, size_t align);

/* Slow path of alloc: larger than every class, or this thread may not take the fast path. */
void *ps_heap_alloc_slow(size_t bytes);

/* ---- the plain mode ---- */

void *ps_plain_alloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);

#endif
