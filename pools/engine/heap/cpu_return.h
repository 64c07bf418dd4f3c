/* SPDX-License-Identifier: MIT */
/*
 * The return of blocks that the caches of processors (cpu_cache.h) do not use to their spans. In
 * rounds, every PS_RETENTION_SCAN_MS, one processor a call.
 *
 * Any thread. Callers: maintenance.c, start.c.
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

/* Returns all blocks. Waits a millisecond for each 64 caches that have any, and up to 20 for
 * another thread that returns blocks, after which it returns none. */
void ps_cpu_return_all(ps_cpu_return *give);

/* In the child of a fork, on its only thread: frees the locks that other threads held. The blocks
 * of the class that such a thread was changing stay used. */
void ps_cpu_return_fork_child(void);

#endif
