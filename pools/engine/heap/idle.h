/* SPDX-License-Identifier: MIT */
/*
 * Memory of owners that do nothing: spans whose blocks have all been freed by other threads belong
 * to a thread that may never allocate again. Others drop the memory behind them; the spans stay
 * their owners'. Any thread, no lock held.
 */
#ifndef PS_HEAP_IDLE_H
#define PS_HEAP_IDLE_H

#include <stdbool.h>
#include <stdint.h>

/* Once, at start: how long an owner must have been idle. */
void ps_idle_start(uint32_t delay_ms);

/* From time to time: looks whether an idle owner has been sent wakes, or, less often, whether one
 * has spans whose wake it may have missed, and if so drops what has come back to it. Costs a walk
 * of the heaps, and of all slices when there is such an owner. */
void ps_idle_look(uint64_t now_ms);

/* Drops what has come back to owners not active since active_before_ms (UINT64_MAX: to all).
 * Returns whether any memory went back. */
bool ps_idle_purge(uint64_t active_before_ms);

/* In the child of a fork, all locks free: ends what another thread was about. */
void ps_idle_fork_salvage(void);

#endif
