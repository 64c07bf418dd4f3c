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
void ps_notify_owner(struct ps_span *span);

/* Of a heap whose thread has ended: sends its notices on to the orphan list. */
void ps_heap_forward_notices(struct ps_heap *heap);

/* Does what a hand-over asks for. handed: its result. */
void ps_remote_handed(struct ps_span *span, unsigned handed);

/* Puts a chain of spans, linked by x_notice_next, on the list of notices of a heap. */
void ps_heap_push_notices(struct ps_heap *owner, struct ps_span *first, struct ps_span *last);

/* Notifies the owners of a list of spans that are QUEUED. */
void ps_heap_notify_all(struct ps_span *span);

/* Looks at spans named by notices: at so many that a call may take part of them, and at all of
 * them. Of a dead heap, in the child of a fork: sends the notices on to the orphan list. */
void ps_heap_take_notices(struct ps_heap *heap);
void ps_heap_take_all_notices(struct ps_heap *heap);

#endif
