/* SPDX-License-Identifier: MIT */
/*
 * The bound on free memory of a process of one thread, without a background thread. The purge delay
 * (purge.h) passes with calls only: a worker that frees its peak and waits for the next request
 * would keep all of it. So what is free, beyond what is in use or 8 MiB, whichever is more, is
 * released at the free itself.
 *
 * A program that builds and frees in rounds would fault its pages again in each. If a good part of
 * what was released becomes resident again within the purge delay, the bound pauses: for 4 delays,
 * and for twice as long each time, up to 32.
 *
 * Callers: maintenance.c. Any thread, no lock held.
 */
#ifndef PS_HEAP_SURPLUS_H
#define PS_HEAP_SURPLUS_H

#include <stdbool.h>
#include <stdint.h>

/* Allowed whatever is in use. */
#define PS_SURPLUS_BYTES_LEAST ((uint64_t)8 << 20)

/* A longer purge delay says that free memory is wanted for that time: then there is no bound. */
#define PS_SURPLUS_DELAY_MOST_MS 1000

/* Releases a part of what exceeds the bound: 2 MiB, or twice what was freed since the last call.
 * Returns whether more exceeds it. */
bool ps_surplus_tick(uint64_t now_ms);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_surplus_fork_child(void);

#endif
