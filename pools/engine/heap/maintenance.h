/* SPDX-License-Identifier: MIT */
/*
 * Periodic work: purges, returns from caches, taking of idle heaps. Slow paths do it in steps, and
 * so does the background thread of processes with several threads; trim and reclaim do it on
 * demand. Called by the owner of the heap, except where noted; the trim by any thread. Locks only
 * through the layers below.
 */
#ifndef PS_HEAP_MAINTENANCE_H
#define PS_HEAP_MAINTENANCE_H

#include "pools/engine/heap/heap.h"

/* Called on slow paths: every few calls reads the clock, purges due memory and releases cached
 * drained spans. */
void ps_heap_tick(struct ps_heap *heap);

/* Reads the clock, for the calling thread, which may have no heap: called outside of a call that
 * accesses one. */
void ps_heap_tick_thread(void);

/* The same after a free of a block above the classes, where the bound of surplus.h is checked now,
 * since the program may make no call for long; elsewhere every few calls. */
void ps_heap_tick_thread_after_free(void);

/* Reads the clock at once: for callers that count their calls themselves. */
void ps_heap_tick_now(struct ps_heap *heap);

/* As ps_heap_tick, after frees of blocks above the classes: where the bound of surplus.h applies,
 * checks it now, since the program may make no call for long. */
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
 * Outside of a call. False: the background thread is to do the work itself before it ends. So it is
 * with a purge delay above ten seconds, and after a call for 31 times as long as that took: a
 * program that starts and joins threads in turn then reuses resident memory.
 */
bool ps_heap_may_catch_up(void);
void ps_heap_catch_up(void);

/* Returns the drained spans of a heap, cached or current, to the page cache. */
void ps_heap_drop_drained(struct ps_heap *heap);

/* Called when a request finds no memory: returns the cached memory of the calling thread's heap and
 * of all shared caches to the page cache, and cached mappings to the system. Within a call. Cost:
 * an unmapping for each cached mapping, and two milliseconds if fronts have blocks. */
void ps_heap_reclaim(void);

/* Returns cached blocks of the calling thread's heap to their spans and regions, and drained spans
 * to the page cache. */
void ps_heap_flush(void);

/* A step of returning the memory whose purge delay is over. */
void ps_heap_decay(void);

/*
 * Returns to the OS the unused memory of the calling thread's heap and of the page cache, except
 * about keep_bytes, and fully free spans of other threads. Returns whether any memory went to the
 * OS. Cost: a madvise per free run.
 */
bool ps_heap_trim(size_t keep_bytes);

#endif
