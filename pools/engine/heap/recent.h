/* SPDX-License-Identifier: MIT */
/*
 * The newest blocks freed in the classes above 4 KiB, of any span of the heap: recent.c says why.
 * Called by the owner of the heap.
 */
#ifndef PS_HEAP_RECENT_H
#define PS_HEAP_RECENT_H

#include "pools/engine/heap/heap.h"

/* Before a heap's first span of a class: if the class has recent blocks, makes them the source of
 * its bin. Returns whether it has. */
bool ps_recent_start(struct ps_heap *heap, uint32_t class_index);

/* The countdown of a class's recent blocks is over. */
void ps_recent_event(struct ps_heap *heap, uint32_t class_index);

/* Moves what lies on the current span's own list to the recent blocks, which have run out. */
void ps_recent_take(struct ps_heap *heap, struct ps_span *span);

/* Blocks that wait there. */
size_t ps_recent_count(const struct ps_heap *heap, uint32_t class_index);

/* Puts a class's recent blocks, or everybody's, into their spans. */
void ps_recent_flush(struct ps_heap *heap, uint32_t class_index);
void ps_recent_flush_all(struct ps_heap *heap);

#endif
