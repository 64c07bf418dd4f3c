/* SPDX-License-Identifier: MIT */
/*
 * Periodic work: when the reservoirs (reservoirs.h) release memory. Three drivers do it: slow paths
 * of the program's calls, the background thread of processes with several threads, and calls that
 * release memory on demand. Any thread. Locks only through the layers below.
 */
#ifndef PS_HEAP_MAINTENANCE_H
#define PS_HEAP_MAINTENANCE_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A step by the calling thread, on a slow path: every few calls, or now, reads the clock, and does
 * what is due. */
void ps_maintenance_tick(void);
void ps_maintenance_tick_now(void);

/* The same after a free of a block above the classes, where the bound of surplus.h is checked now,
 * since the program may make no call for long; elsewhere every few calls. */
void ps_maintenance_tick_after_free(void);

/* A step by the background thread. Returns after how many milliseconds there is more to do; 0:
 * nothing was found. */
uint32_t ps_maintenance_step(uint64_t now_ms);

/*
 * A report while the program runs: called inside of a call of malloc or free when the clock has
 * passed x_report_ms, in a process without a background thread. The engine's own does nothing; the
 * program that links it may define another, which stores the next time and must not allocate.
 * UINT64_MAX: never.
 */
extern PS_HIDDEN uint64_t ps_maintenance_x_report_ms;
PS_HOOK void ps_maintenance_report(uint64_t now_ms);

/*
 * Releases all free memory, as the background thread would in a silence: called by the only thread,
 * when the background thread has ended. Cost: about a millisecond for 15 MiB. False: the background
 * thread is to do the work itself before it ends. So it is with a purge delay above ten seconds,
 * and after a call for 31 times as long as that took: a program that starts and joins threads in
 * turn then reuses resident memory.
 */
bool ps_maintenance_may_catch_up(void);
void ps_maintenance_catch_up(void);

/* Called when a request finds no memory: returns the cached memory of the calling thread and of all
 * shared caches to the page cache, and cached mappings to the system. Cost: an unmapping for each
 * cached mapping, and two milliseconds if fronts have blocks. */
void ps_maintenance_reclaim(void);

/* Returns cached blocks of the calling thread to their slabs and regions. */
void ps_maintenance_flush(void);

/* A step of returning the memory whose purge delay is over. */
void ps_maintenance_decay(void);

/* Returns to the OS all free memory, except about keep_bytes. Returns whether any memory went to
 * the OS. Cost: a madvise per free run. */
bool ps_maintenance_trim(size_t keep_bytes);

#endif
