/* SPDX-License-Identifier: MIT */
/*
 * Freed page runs of large blocks that wait before they are reused, oldest first out, while blocks
 * are hardened (hard.h). From level 2 on what waits cannot be accessed. Up to 32 MiB of it have
 * their memory yet.
 *
 * Callers: level_1.c, and the hooks of these modes (modes.c). Any thread; lock PS_RANK_HARD, not
 * held over system calls.
 */
#ifndef PS_HARDEN_HARD_LARGE_H
#define PS_HARDEN_HARD_LARGE_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>

/* Takes a run, BUSY, that nobody uses any more. */
void ps_hard_large_hold(struct ps_run *run);

/* Lets all that waits be reused. False when there was nothing. */
bool ps_hard_large_flush(void);

/* At level 1, what waits must be zero: aborts where it is not, in the first so many bytes. */
void ps_hard_large_sweep(size_t bytes);

/* In the child of a fork, by its only thread. */
void ps_hard_large_fork_child(void);

#endif
