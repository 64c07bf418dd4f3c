/* SPDX-License-Identifier: MIT */
/*
 * Remote frees, and the notices that tell an owner of returned blocks. Lock-free, except that
 * notices to orphans take the orphan lock.
 */
#ifndef PS_HEAP_REMOTE_H
#define PS_HEAP_REMOTE_H

#include "pools/engine/heap/heap.h"

/* Frees a block of another owner's span: adds it to a batch. */
void ps_remote_free(struct ps_heap *heap, struct ps_span *span, void *block);

/* Frees a block on a thread without a heap: transfers it at once. */
void ps_remote_free_at_once(struct ps_span *span, void *block);

/* Transfers all batches of a heap. */
void ps_remote_flush(struct ps_heap *heap);

/* Sends the notice of a QUEUED span to its present owner. */
void ps_notify_owner(struct ps_span *span);

/* Forwards the notices of a heap whose thread has ended to adopters or the orphans. */
void ps_heap_forward_notices(struct ps_heap *heap);

/* Parks a heap that has no thread and, apart from full ones, no spans, and forwards its notices. It
 * is reused once it owns no span. */
void ps_heap_park(struct ps_heap *heap);

/* Performs the duties of a transfer. handed: its result. */
void ps_remote_handed(struct ps_span *span, unsigned handed);

/* Pushes a chain of spans, linked by x_notice_next, on a heap's list of notices. */
void ps_heap_push_notices(struct ps_heap *owner, struct ps_span *first, struct ps_span *last);

/* Sends the notices of a list of QUEUED spans. */
void ps_heap_notify_all(struct ps_span *span);

/* Collect the spans named by notices: a bounded number, or all of them. For a DEAD heap, in the
 * child of a fork: forward the notices to the orphans. */
void ps_heap_take_notices(struct ps_heap *heap);
void ps_heap_take_all_notices(struct ps_heap *heap);

#endif
