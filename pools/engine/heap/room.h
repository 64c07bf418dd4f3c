/* SPDX-License-Identifier: MIT */
/*
 * What a heap keeps: its spans with room, per class, and the bound on them. Called by the owner of
 * the heap. Locks: those of the orphan list.
 */
#ifndef PS_HEAP_ROOM_H
#define PS_HEAP_ROOM_H

#include "pools/engine/heap/heap.h"

/* A second heap exists, or has existed: what one keeps, another may want. Relaxed: a hint. */
extern PS_HIDDEN uint32_t ps_room_x_is_shared;

/* Enters a span with room in the list of its class; takes it off. */
void ps_room_enter(struct ps_heap *heap, struct ps_span *span);
void ps_room_leave(struct ps_heap *heap, struct ps_span *span);

/* An available span has gained room. */
void ps_room_gained(struct ps_heap *heap, struct ps_span *span);

/* From time to time: where the heap keeps too much of a class, some of its spans become orphans. */
void ps_room_scan(struct ps_heap *heap);

/* The heap gives a span up that is on no list. */
void ps_room_orphan(struct ps_heap *heap, struct ps_span *span);

#endif
