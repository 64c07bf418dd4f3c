/* SPDX-License-Identifier: MIT */
/*
 * The newest blocks freed in the classes above 4 KiB, of any span of the heap: lifo.c says why.
 * Called by the owner of the heap.
 */
#ifndef PS_HEAP_LIFO_H
#define PS_HEAP_LIFO_H

#include "pools/engine/heap/heap.h"

/* Before a heap's first span of a class: if the class has LIFO cache, makes them the source of
 * its bin. Returns whether it has. */
bool ps_lifo_start(struct ps_heap *heap, uint32_t class_index);

/* The countdown of a class's LIFO cache is over. */
void ps_lifo_event(struct ps_heap *heap, uint32_t class_index);

/* Moves what lies on the current span's own list to the LIFO cache, which have run out. */
void ps_lifo_take(struct ps_heap *heap, struct ps_span *span);

/* Blocks that wait there. */
size_t ps_lifo_count(const struct ps_heap *heap, uint32_t class_index);

/* Puts a class's LIFO cache, or everybody's, into their spans. */
void ps_lifo_flush(struct ps_heap *heap, uint32_t class_index);
void ps_lifo_flush_all(struct ps_heap *heap);

#endif
