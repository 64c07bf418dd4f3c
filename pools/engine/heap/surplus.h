/* SPDX-License-Identifier: MIT */
/*
 * How much free memory the process retains, beside what the purge delay (purge.h) does.
 *
 * Swings. A program that builds and frees in rounds longer than the delay would fault its pages
 * again in each. So purges are compared with what becomes resident again: if that is 64 MiB within
 * eight delays, or two seconds, the purgers leave as much free memory as the swings of that time
 * need (ps_retention_kept_bytes). When the program swings no more, it is due as any other.
 *
 * The bound of a process of one thread, without a background thread. There the delay passes with
 * calls only: a worker that frees its peak and blocks on its next request would retain all of it.
 * So the free itself releases the free memory in excess of a third of the used memory, or of 8 MiB
 * if that is more, and of what the swings need: pages and mappings, and, counted apart, pages of
 * slabs.
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

/* So much that is purged and taken again within that time is worth its memory: 8,192 faults a
 * second cost about a hundredth of a processor. */
#define PS_SURPLUS_COSTLY_BYTES ((uint64_t)64 << 20)
#define PS_SURPLUS_SWING_DELAYS 8
#define PS_SURPLUS_SWING_MS 2000 /* at most: of the default delay */

/* A longer purge delay says that free memory is wanted for that time: then there is no bound. */
#define PS_SURPLUS_DELAY_MOST_MS 1000

/* Reads how much is free, every 50 ms at most. is_bounded: every time, and releases a part of the
 * excess: 2 MiB, or twice the memory freed since the last call. Returns whether there is more. */
bool ps_surplus_tick(uint64_t now_ms, bool is_bounded);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_surplus_fork_child(void);

#endif
