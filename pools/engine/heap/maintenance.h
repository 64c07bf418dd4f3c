/* SPDX-License-Identifier: MIT */
/*
 * Periodic work: steps from slow paths, which are all that a process of one thread has, and from
 * the background thread; and the same on demand. Called by the owner of the heap, except where
 * noted; the trim by any thread. Locks only through the layers below.
 */
#ifndef PS_HEAP_MAINTENANCE_H
#define PS_HEAP_MAINTENANCE_H

#include "pools/engine/heap/heap.h"

/* Called on slow paths: every few calls reads the clock, purges due memory and releases cached
 * drained spans. */
void ps_heap_tick(struct ps_heap *heap);

/* Reads the clock: for calls of which only one in some comes here. */
void ps_heap_tick_now(struct ps_heap *heap);

/* As ps_heap_tick, after frees of blocks above the classes: where the bound of surplus.h is kept,
 * it is checked now, since the program may make no call for long. */
void ps_heap_tick_after_free(struct ps_heap *heap);

/* A step of maintenance for the memory of other threads, by the background thread or any thread
 * outside of a call. Returns after how many milliseconds there is more to do; 0: nothing was
 * found. */
uint32_t ps_heap_maintain(uint64_t now_ms);

/*
 * A report while the program runs: called inside of a call of malloc or free when the clock has
 * passed x_report_ms, in a process without a background thread. The engine's own does nothing; the
 * program that links it may define another, which stores the next time and must not allocate.
 * UINT64_MAX: never.
 */
extern PS_HIDDEN uint64_t ps_maintenance_x_report_ms;
PS_HOOK void ps_maintenance_report(uint64_t now_ms);

/*
 * Releases all free memory that no heap caches, as the background thread would in a silence: called
 * by the only thread, when the background thread has ended. Cost: about a millisecond for 15 MiB.
 * Outside of a call. If it must not be called now, the background thread stays until it has done
 * the work itself: after a call, for 31 times as long as that took, so that a program that starts
 * and joins threads in turn keeps its memory warm; and with a purge delay above ten seconds.
 */
bool ps_heap_may_catch_up(void);
void ps_heap_catch_up(void);

/* Returns the drained spans of a heap, cached or current, to the page cache. */
void ps_heap_drop_drained(struct ps_heap *heap);

/* When a request finds no memory: returns what the calling thread's heap and all caches hold to the
 * page cache, and kept mappings to the system. Within a call. Cost: an unmapping for each kept
 * mapping, and a millisecond if caches of processors have blocks. */
void ps_heap_reclaim(void);

/* Returns what the calling thread's heap keeps ready to its spans and regions, and drained spans to
 * the page cache. */
void ps_heap_flush(void);

/* A step of returning the memory whose purge delay is over. */
void ps_heap_decay(void);

/*
 * Returns all memory that the calling thread's heap and the page cache do not need, except about
 * keep_bytes, and that of other threads' fully free spans. Returns whether any memory went to the
 * OS. Cost: a madvise per free run.
 */
bool ps_heap_trim(size_t keep_bytes);

#endif
