/* SPDX-License-Identifier: MIT */
/*
 * Memory of owners that do nothing. A full span whose blocks have all been freed by other threads
 * stands on the list of notices of a thread that may never allocate again. A thief takes the list,
 * part by part, and returns such spans to the page cache; the notices of the others are sent again.
 *
 * Any thread, no lock held. Every call but ps_steal_all and the salvage takes a bounded number
 * of steps, and a later one goes on from there.
 */
#ifndef PS_HEAP_STEAL_H
#define PS_HEAP_STEAL_H

#include "pools/engine/heap/heap.h"

/* Once, at start: the purge delay. An owner is idle when it has not looked at the clock for a
 * quarter of it. */
void ps_steal_start(uint32_t delay_ms);

/* One more span of this heap is wholly back, and its notice has been sent. */
void ps_steal_note_back(struct ps_heap *owner);

/* From time to time: steals from idle owners. */
void ps_steal_tick(uint64_t now_ms);

/* Before a heap takes fresh memory: returns spans of an owner that has many which are wholly back
 * to the page cache. Returns whether any was. */
bool ps_steal_from_candidate(const struct ps_heap *heap);

/* Steals from all owners whatever there is. */
void ps_steal_all(void);

/* In the child of a fork, by its only thread: repairs the lock; and, all locks free, ends what
 * another thread was about. */
void ps_steal_fork_child(void);
void ps_steal_fork_salvage(void);

#endif
