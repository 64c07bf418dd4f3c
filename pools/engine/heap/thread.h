/* SPDX-License-Identifier: MIT */
/*
 * Threads and their heaps: acquisition, and release at the thread's end. Any thread, for itself.
 */
#ifndef PS_HEAP_THREAD_H
#define PS_HEAP_THREAD_H

#include "pools/engine/heap/heap.h"

/*
 * The calling thread's heap; created or reused if it has none. Precondition: the engine has
 * started. NULL when memory is exhausted or the thread is past its clean-up (is_exiting).
 */
struct ps_heap *ps_heap_acquire(void);

/* Releases the calling thread's heap, as at its end. For tests; threads do so by themselves. */
void ps_heap_give_up(void);

/* Called once, at start; the second creates the first heap, for the starting thread. */
void ps_thread_start(void);
void ps_thread_start_first(void);

#endif
