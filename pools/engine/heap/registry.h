/* SPDX-License-Identifier: MIT */
/*
 * The lists of all heaps and of the parked ones. A heap is never freed: it is parked when its
 * thread ends, and once it owns no span it serves the next thread.
 *
 * Callers: thread.c, detached.c, remote.c, remote_steal.c, start.c, the census. Any thread; lock
 * PS_RANK_REGISTRY.
 */
#ifndef PS_HEAP_REGISTRY_H
#define PS_HEAP_REGISTRY_H

#include "pools/engine/heap/heap.h"

/* The calling thread's heap, or NULL if it has none. Restores a heap that another thread has only
 * asked for (thread.h); without the registry lock the thread cannot tell. */
struct ps_heap *ps_heap_recover(void);

/* Returns a heap in state LIVE, attached to no thread yet; preferably the one that was taken from
 * the calling thread. NULL when memory is exhausted. */
struct ps_heap *ps_heap_make(void);

/* Parks a heap, for ps_heap_park, which forwards its notices. */
void ps_registry_park(struct ps_heap *heap);

/* Handles a QUEUED span of a heap whose thread had ended when the caller read its owner: it gets
 * the owner new_key, or becomes an orphan. Returns false if the span has another owner, or the heap
 * another thread, by now. */
bool ps_heap_leave_parked(struct ps_span *span, uintptr_t key, uintptr_t new_key);

/* Called after a span of this heap was stolen: if its thread has ended and that was the last span,
 * offers the heap to the next thread. */
void ps_heap_offer(struct ps_heap *heap);

/* Sets the words that let a thread with this heap take the fast paths, as far as the mode permits.
 * NULL: it has no heap. */
void ps_registry_set_words(struct ps_thread_words *thread, const struct ps_heap *heap);

/* Fills the words of a thread again whose heap was asked for. Under the registry lock. */
void ps_registry_restore(struct ps_thread_words *thread, struct ps_heap *heap);

/* Makes a HELD heap that still has spans with room IDLE: any thread may continue to clear it. */
void ps_registry_set_idle(struct ps_heap *heap);

/* Makes a heap whose thread does not use it HELD by this thread. Under the registry lock. */
void ps_registry_hold(struct ps_heap *heap);

/* For thread.c and thread_record.c: takes the lock, or takes it if it is free; and the successor of
 * a heap in cyclic order. */
void ps_registry_acquire(void);
bool ps_registry_try(void);
void ps_registry_release(void);
struct ps_heap *ps_registry_after(const struct ps_heap *heap);

/* The newest heap. Written under the lock; read from outside the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_heap *ps_registry_x_heaps;

/* The same, with the lock; next_heap leads to older ones and never changes. */
struct ps_heap *ps_heap_newest(void);

/* Calls visit for every heap, under the registry lock. */
void ps_heap_walk(void (*visit)(struct ps_heap *heap, void *context), void *context);

/* In the child of a fork, on its only thread: marks the heaps of other threads DEAD, and shared
 * ones other than late_heap. ps_registry_first is then the first of all heaps, linked by
 * next_heap. */
void ps_registry_fork_child(const struct ps_heap *late_heap);
struct ps_heap *ps_registry_first(void);

#endif
