/* SPDX-License-Identifier: MIT */
/*
 * The policy that decides when the page cache returns memory to the OS.
 *
 * Granules that have been free and dirty for the whole of the last delay were not needed and become
 * due; granules needed at any moment of it do not. Low-water marks measure this: the delay is
 * divided into four quarters, each records its minimum of dirty granules, and at the end of a
 * quarter the minimum of the last four is due. A heap whose size varies within one delay faults no
 * page twice; one that has shrunk returns the difference within 1 to 1.25 delays of activity. No
 * page has a time stamp and no list is walked. (Low-water marks after tcmalloc's thread caches; the
 * demand-based rule after its page heap.)
 *
 * The delay is that of retention.h: if it is 0, all dirty granules are due at each tick.
 *
 * Time advances only with allocations and frees: slow paths call ps_purge_tick.
 */
#ifndef PS_PAGE_PURGE_H
#define PS_PAGE_PURGE_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_purge_counts {
    uint64_t calls; /* system calls that returned memory */
    uint64_t bytes;
    uint64_t pressed_bytes; /* of them, while memory was short */
};

/* Any thread adds. Read here and from outside the process: record/layout.h. */
extern PS_HIDDEN struct ps_purge_counts ps_purge_x_counts;

/* Notes that the page cache now has fewer dirty granules than before. Under the page lock. */
void ps_purge_note_locked(uint64_t dirty_granules);

/*
 * Ends the quarter if its time has passed, and purges a part of the due granules. Any thread,
 * without a lock; returns at once when nothing is due, or another thread is purging. Drops 4 MiB, 6
 * if much is due, or twice that of huge pages, in at most half a millisecond; the frequency depends
 * on elapsed time and on the due amount.
 */
void ps_purge_tick(uint64_t now_ms);

/* True when more is due than the last tick has purged, so that the next one should come soon. */
bool ps_purge_is_behind(void);

/* Purges up to so many dirty granules at once, due or not, bounded as a step of ps_purge_tick.
 * Returns how many; 0 if another thread is purging. */
uint64_t ps_purge_some(uint64_t granules);

/* Purges all dirty runs except about keep_bytes, at once. Returns whether any memory was
 * returned. */
bool ps_purge_all(size_t keep_bytes);

/* Counts memory that another file returned (a mapping, for example). Any thread. */
void ps_purge_count(uint64_t bytes);

void ps_purge_read(struct ps_purge_counts *out);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_purge_fork_child(void);

#endif
