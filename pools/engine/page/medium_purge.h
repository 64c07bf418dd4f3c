/* SPDX-License-Identifier: MIT */
/*
 * When the free pages of medium blocks go back to the OS: by the rule of purge.h, a page that was
 * free and dirty for the whole of the last delay. Among those, the pages in the longest holes go
 * first, which are the last to be allocated. Any thread; lock PS_RANK_MEDIUM_PURGE, held over
 * system calls, and waited for by ps_medium_purge_all only.
 */
#ifndef PS_PAGE_MEDIUM_PURGE_H
#define PS_PAGE_MEDIUM_PURGE_H

#include <stdbool.h>
#include <stdint.h>

/* Notes that fewer pages are dirty now. Lock PS_RANK_MEDIUM held. */
void ps_medium_purge_note(uint64_t dirty_pages);

/* Reads the clock and purges pages that are due, a bounded number per call. */
void ps_medium_purge_tick(uint64_t now_ms);

/* True if a step has left pages that are due: the clock is to be read again soon. */
bool ps_medium_purge_is_behind(void);

/* Purges so many pages now, at most as many as a tick does, whether they are due or not. Returns
 * how many went back; 0 where another thread is about it. */
uint64_t ps_medium_purge_some(uint64_t pages);

/* Purges all, at once. Returns whether any memory was returned. */
bool ps_medium_purge_all(void);

void ps_medium_purge_fork_child(void);

#endif
