/* SPDX-License-Identifier: MIT */
/*
 * Quarantine of freed runs of large blocks while blocks are hardened (hard.h), first in, first out.
 * From level 2 on quarantined runs are inaccessible. Up to 32 MiB of them remain resident.
 *
 * Callers: level_1.c, and the hooks of these modes (modes.c). Any thread; lock PS_RANK_HARD,
 * released before system calls.
 */
#ifndef PS_HARDEN_HARD_LARGE_H
#define PS_HARDEN_HARD_LARGE_H

#include "pools/engine/page/page_map.h"

/*
 * Called once, at start. bytes: of a quarantined run, from its start, become inaccessible at most;
 * 0: none, and fewer runs are quarantined. Its memory remains resident: mapping and zeroing it
 * again, page by page, took 40 times as long as level 0 in a loop over blocks of megabytes
 * (bench/churn), and making such runs inaccessible as a whole 6 times.
 */
void ps_hard_large_start(size_t bytes);
#define PS_HARD_LARGE_WHOLE SIZE_MAX

/* Takes a BUSY run that has no other user. */
void ps_hard_large_hold(struct ps_run *run);

/* Returns all quarantined runs to the page cache. */
void ps_hard_large_flush(void);

/* At level 1: aborts if a quarantined run is not zero, in the first `bytes` bytes of all. */
void ps_hard_large_sweep(size_t bytes);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_hard_large_fork_child(void);

#endif
