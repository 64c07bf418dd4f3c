/* SPDX-License-Identifier: MIT */
/*
 * All heaps that were ever made, and those of them that wait for a thread. A heap is never freed:
 * when its thread ends it is parked, and once it owns no span it serves the next thread.
 *
 * Callers: thread.c, exited.c, remote.c, steal.c, fork.c, the census. Any thread; lock
 * PS_RANK_REGISTRY.
 */
#ifndef PS_HEAP_REGISTRY_H
#define PS_HEAP_REGISTRY_H

#include "pools/engine/heap/heap.h"

/* The calling thread's heap, if it has one: another thread may have asked for it (take.h). Whether
 * it has one is only certain here. */
struct ps_heap *ps_heap_recover(void);

/* A heap, state LIVE, attached to no thread yet: the one that was taken from the calling thread, if
 * it is to be had. NULL when memory is out. */
struct ps_heap *ps_heap_make(void);

/* The heap has lost its thread and all but full spans: another may have it, as soon as it owns no
 * span. Notices that were sent to it go on. */
void ps_heap_park(struct ps_heap *heap);

/* A QUEUED span that belonged to a heap whose thread had ended when the caller looked: it becomes
 * new_key's, or an orphan. False when it has another owner, or the heap another thread, by now. */
bool ps_heap_leave_parked(struct ps_span *span, uintptr_t key, uintptr_t new_key);

/* Another thread has taken a span of this heap: if its own thread has ended and that was the last,
 * the heap is for the next thread. */
void ps_heap_offer(struct ps_heap *heap);

/* A HELD heap still has spans with room: any thread may go on with it. */
void ps_registry_set_idle(struct ps_heap *heap);

/* For take.c: the lock, if it is free, and the heap that comes after another, round and round. */
bool ps_registry_try(void);
void ps_registry_release(void);
struct ps_heap *ps_registry_after(const struct ps_heap *heap);

/* The heap made last; next_heap leads to those before it, and never changes. */
struct ps_heap *ps_heap_newest(void);

/* Calls visit for every heap ever made, registry lock held. */
void ps_heap_walk(void (*visit)(struct ps_heap *heap, void *context), void *context);

/* In the child of a fork, by its only thread: marks the heaps of other threads dead, and the shared
 * ones other than late_heap. Then the first of all heaps, linked by next_heap. */
void ps_registry_fork_child(const struct ps_heap *late_heap);
struct ps_heap *ps_registry_first(void);

#endif
