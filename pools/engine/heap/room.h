/* SPDX-License-Identifier: MIT */
/*
 * The spans with room of a heap, per class, and the bound on them. Called by the owner of the heap.
 * Locks: the orphan lock.
 */
#ifndef PS_HEAP_ROOM_H
#define PS_HEAP_ROOM_H

#include "pools/engine/heap/heap.h"

/* True once a second heap has been created: room of one may serve another. Relaxed: a hint. */
extern PS_HIDDEN uint32_t ps_room_x_is_shared;

/* Adds a span with room to the list of its class; removes it. */
void ps_room_enter(struct ps_heap *heap, struct ps_span *span);
void ps_room_leave(struct ps_heap *heap, struct ps_span *span);

/* Updates the count after an available span has gained room. */
void ps_room_gained(struct ps_heap *heap, struct ps_span *span);

/* Called periodically: orphans spans of classes that exceed the bound. */
void ps_room_scan(struct ps_heap *heap);

/* Makes a span, which is on no list, an orphan. */
void ps_room_orphan(struct ps_heap *heap, struct ps_span *span);

#endif
