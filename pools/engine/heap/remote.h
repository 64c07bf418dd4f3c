/* SPDX-License-Identifier: MIT */
/*
 * Remote frees, and the notices that name spans with returned blocks to their owner. Lock-free,
 * except that notices to orphans take the orphan lock.
 *
 * Stealing (remote_steal.c) takes fully free spans from heaps whose threads do not process their
 * notices. A full span whose blocks have all been freed by other threads is on the list of notices
 * of its owner, which may never allocate again. The stealing thread takes the list, in steps, and
 * returns such spans to the page cache; the notices of the others are sent again.
 *
 * An owner is idle when it has not read the clock for a quarter of the purge delay.
 *
 * Any thread, without a lock, within a call (ps_thread_enter): a transfer or a notice may make a
 * span the calling thread's. Every call except ps_steal_all and the salvage takes a bounded number
 * of steps, and a later one continues.
 */
#ifndef PS_HEAP_REMOTE_H
#define PS_HEAP_REMOTE_H

#include "pools/engine/heap/heap.h"

/* Frees a block of another owner's span: adds it to a batch. */
void ps_remote_free(struct ps_heap *heap, struct ps_span *span, void *block);

/* Frees a block on a thread without a heap: transfers it at once. */
void ps_remote_free_at_once(struct ps_span *span, void *block);

/* Transfers a block with the link of ps_span_waiting_link at once. Any thread, with or without a
 * heap. */
void ps_remote_return(void *block);

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

/*
 * When memory is exhausted: makes blocks that were freed into full spans of the heap available, of
 * all classes. Full spans are on no list, and give notice when an eighth of their blocks is back.
 * Cost: a walk over all spans, under the page lock: 0.7 us for each MiB. So after a walk that finds
 * nothing, more and more calls do nothing, up to 255. collect_rest walks if the last call did
 * nothing. Returns whether any was found.
 */
void ps_remote_collect_full(struct ps_heap *heap);
bool ps_remote_collect_rest(struct ps_heap *heap);

/* ---- stealing ---- */

/* Counts a fully free span of this heap whose notice has been sent. */
void ps_steal_note_back(struct ps_heap *owner);

/* Called periodically: steals from idle owners. */
void ps_steal_tick(uint64_t now_ms);

/* True when the last tick did not finish its walk: the next one should come soon. */
bool ps_steal_is_behind(void);

/* Called before a heap takes fresh memory: returns fully free spans of an owner that has many of
 * them to the page cache. Returns whether there was any. */
bool ps_steal_from_candidate(const struct ps_heap *heap);

/* Steals all fully free spans of all owners. */
void ps_steal_all(void);

/* In the child of a fork, on its only thread: repairs the lock; and, with all locks free, completes
 * the operation of another thread. */
void ps_steal_fork_child(void);
void ps_steal_fork_salvage(void);

#endif
