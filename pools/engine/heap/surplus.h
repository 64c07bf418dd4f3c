/* SPDX-License-Identifier: MIT */
/*
 * The bound on free memory of a process of one thread, without a background thread. The purge delay
 * (purge.h) passes with calls only: a worker that frees its peak and blocks on its next request
 * would retain all of it. So the free itself releases the free memory in excess of a third of the
 * used memory, or of 8 MiB if that is more: pages and mappings, and, counted apart, pages of slabs.
 *
 * A program that builds and frees in rounds would fault its pages again in each. If a good part of
 * the released memory becomes resident again within the purge delay, the bound pauses: for 4
 * delays, and for twice as long each time, up to 32.
 *
 * Callers: maintenance.c. Any thread. Lock PS_RANK_SURPLUS, over the system calls; tried only.
 */
#ifndef PS_HEAP_SURPLUS_H
#define PS_HEAP_SURPLUS_H

#include <stdbool.h>
#include <stdint.h>

/* May be free: this part of the used memory, and at least so many bytes. */
#define PS_SURPLUS_USED_FRACTION 3
#define PS_SURPLUS_BYTES_LEAST ((uint64_t)8 << 20)

/* A longer purge delay says that free memory is wanted for that time: then there is no bound. */
#define PS_SURPLUS_DELAY_MOST_MS 1000

/* Releases a part of the excess: 2 MiB, or twice the memory freed since the last call. Returns
 * whether there is more. */
bool ps_surplus_tick(uint64_t now_ms);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_surplus_fork_child(void);

#endif
