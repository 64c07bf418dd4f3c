/* SPDX-License-Identifier: MIT */
/*
 * LIFO caches: the newest freed blocks of the classes above 4 KiB, in any span of the heap; lifo.c
 * gives the reason. Called by the owner of the heap.
 */
#ifndef PS_HEAP_LIFO_H
#define PS_HEAP_LIFO_H

#include "pools/engine/heap/heap.h"

/* Called before a heap's first span of a class: if the class has a LIFO cache, makes it the source
 * of its bin. Returns whether it has one. */
bool ps_lifo_start(struct ps_heap *heap, uint32_t class_index);

/* Handles the end of the countdown of a class's LIFO cache. */
void ps_lifo_event(struct ps_heap *heap, uint32_t class_index);

/* Moves the blocks on the current span's own list to the empty LIFO cache. */
void ps_lifo_take(struct ps_heap *heap, struct ps_span *span);

/* Number of cached blocks. */
size_t ps_lifo_count(const struct ps_heap *heap, uint32_t class_index);

/* Returns the blocks of one class's LIFO cache, or of all, to their spans. */
void ps_lifo_flush(struct ps_heap *heap, uint32_t class_index);
void ps_lifo_flush_all(struct ps_heap *heap);

#endif
