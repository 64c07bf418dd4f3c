/* SPDX-License-Identifier: MIT */
/*
 * Frees of other owners' blocks, and the notices by which an owner learns that blocks have come
 * back. Lock-free, except that notices to orphans take the orphan lock.
 */
#ifndef PS_HEAP_REMOTE_H
#define PS_HEAP_REMOTE_H

#include "pools/engine/heap/heap.h"

/* Frees a block of another owner's span. */
void ps_remote_free(struct ps_heap *heap, struct ps_span *span, void *block);

/* Frees a block of a span by a thread without a heap: it is handed to the owner at once. */
void ps_remote_free_at_once(struct ps_span *span, void *block);

/* Hands all gathered frees over. */
void ps_remote_flush(struct ps_heap *heap);

/* Tells the owner of a span that is QUEUED, whoever that is by now. */
void ps_wake_owner(struct ps_span *span);

/* Of a heap whose thread has ended: sends its wakes on to the orphanage. */
void ps_heap_send_on_wakes(struct ps_heap *heap);

/* Does what a hand-over asks for. handed: its result. */
void ps_remote_handed(struct ps_span *span, unsigned handed);

/* Looks for an owner who does not look at his wakes, and gives those of his spans back to the page
 * cache whose blocks have all come back. Returns whether there were any. */
bool ps_heap_steal_back(const struct ps_heap *heap);

/* In the child of a fork, all locks free: sends the wakes that another thread had in hand. */
void ps_remote_fork_salvage(void);

/* Looks at the spans that others wanted looked at. Of a dead heap, in the child of a fork: sends
 * them on to the orphanage. */
void ps_heap_take_wakes(struct ps_heap *heap);

#endif
