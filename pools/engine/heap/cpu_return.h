/* SPDX-License-Identifier: MIT */
/*
 * Returns unused blocks of the caches of processors (cpu_cache.h) to their spans: in rounds, every
 * PS_RETENTION_SCAN_MS, one processor a call.
 *
 * Any thread; one at a time returns blocks, the others skip it. Callers: maintenance.c, start.c.
 */
#ifndef PS_HEAP_CPU_RETURN_H
#define PS_HEAP_CPU_RETURN_H

#include <stddef.h>
#include <stdint.h>

/* Returns a block to its span: ps_remote_return, which is of a layer above. */
typedef void ps_cpu_return(void *block);

/* Called periodically. Returns after how many milliseconds there is more to do; 0: all caches were
 * empty. */
uint32_t ps_cpu_return_tick(uint64_t now_ms, ps_cpu_return *give);

/* Returns all blocks. Sleeps a millisecond for each 64 caches that have any, and up to 20 while
 * another thread returns blocks, after which it returns none. */
void ps_cpu_return_all(ps_cpu_return *give);

/* In the child of a fork, on its only thread: frees the locks of other threads. The blocks of a
 * class that such a thread was changing are lost: they remain used. */
void ps_cpu_return_fork_child(void);

#endif
