/* SPDX-License-Identifier: MIT */
/*
 * Steals fully free spans from heaps whose threads do not process their notices. A full span whose
 * blocks have all been freed by other threads is on the list of notices of its owner, which may
 * never allocate again. The stealing thread takes the list, in steps, and returns such spans to the
 * page cache; the notices of the others are sent again.
 *
 * An owner is idle when it has not read the clock for a quarter of the purge delay.
 *
 * Any thread, no lock held. Every call except ps_steal_all and the salvage takes a bounded number
 * of steps, and a later one continues.
 */
#ifndef PS_HEAP_STEAL_H
#define PS_HEAP_STEAL_H

#include "pools/engine/heap/heap.h"

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
