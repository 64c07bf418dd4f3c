/* SPDX-License-Identifier: MIT */
/*
 * Periodic work, driven from slow paths, because there is no background thread; and the same on
 * demand. Called by the owner of the heap; the trim by any thread. Locks only through the layers
 * below.
 */
#ifndef PS_HEAP_MAINTENANCE_H
#define PS_HEAP_MAINTENANCE_H

#include "pools/engine/heap/heap.h"

/* Called on slow paths: every few calls looks at the clock, purges what is due and lets go of
 * drained spans that were kept. */
void ps_heap_tick(struct ps_heap *heap);

/* Gives the kept, drained spans of a heap back to the page cache. */
void ps_heap_drop_drained(struct ps_heap *heap);

/*
 * Gives back everything that the calling thread's heap and the page cache do not need, but about
 * keep_bytes of it; also the memory of other threads' spans whose blocks have all come back.
 * Returns whether any memory went back to the OS. Cost: a madvise per free run.
 */
bool ps_heap_trim(size_t keep_bytes);

#endif
