/* SPDX-License-Identifier: MIT */
/*
 * The plain mode: entry points for the table (modes.c), from which those of other modes are built.
 * They serve calls that take neither the fast path nor that of a cache. Errors and the heap
 * argument are as in slow_path.h. Locks only through the layers below.
 */
#ifndef PS_HEAP_PLAIN_H
#define PS_HEAP_PLAIN_H

#include "pools/engine/heap/heap.h"

void *ps_plain_alloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_plain_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);
void ps_plain_free(struct ps_span *span, void *block, uintptr_t owner_key);

/* ---- parts of it that other modes use ---- */

/* Returns a valid block to its span, which has another owner, or is of a heap that this thread has
 * just received. */
void ps_heap_free_foreign_owner(struct ps_span *span, void *block);

/* Frees a block outside of spans. */
void ps_free_large(struct ps_slot *slot, void *block);

#endif
