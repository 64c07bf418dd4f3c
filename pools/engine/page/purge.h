/* SPDX-License-Identifier: MIT */
/*
 * When memory goes back to the OS, and nothing else.
 *
 * The rule: what has been free and dirty for the whole of the last delay was not needed, so it is
 * due; what was needed at any moment of it stays. Measured by low-water marks: the delay is cut
 * into four quarters, each keeps the least number of dirty granules seen in it, and at the end of a
 * quarter the least of the last four is due. A heap that swings within one delay never faults a
 * page twice; one that has shrunk is back within 1 to 1.25 delays of activity. No page has a time
 * stamp and no list is walked. (Low-water marks after tcmalloc's thread caches; the demand-based
 * rule after its page heap.)
 *
 * Time passes only when somebody allocates: ps_purge_tick is called from slow paths.
 */
#ifndef PS_PAGE_PURGE_H
#define PS_PAGE_PURGE_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_purge_counts {
    uint64_t calls; /* system calls that gave memory back */
    uint64_t bytes;
};

/* Once, before the page cache is used. delay_ms 0: purge whatever is dirty at every tick. */
void ps_purge_start(uint32_t delay_ms);

/* The delay that was set, to be followed by whoever keeps free memory of his own. */
uint32_t ps_purge_delay_ms(void);

/* The page cache has so many dirty granules now, fewer than before. Page lock held. */
void ps_purge_note_locked(uint64_t dirty_granules);

/* Looks at the clock and purges a part of what is due. Any thread, no lock held; returns at once
 * when nothing is, or another thread is about it. Drops 4 MiB, 6 where much is due, or twice that
 * of huge pages, which takes half a millisecond or less; how often, depends on the time that has
 * passed and on how much is due. */
void ps_purge_tick(uint64_t now_ms);

/* Whether more is due than the last tick has purged: the next one should come soon. */
bool ps_purge_is_behind(void);

/* Purges all dirty runs now but about keep_bytes. Returns whether any memory went back. */
bool ps_purge_all(size_t keep_bytes);

/* Whether purged huge pages are kept apart (arena.h). Not in large heaps: the kernel needs a
 * mapping for each that is, of the 65,530 that a process may have. */
static inline bool ps_purge_keeps_apart(uint64_t arena_granules) {
    return arena_granules <= (uint64_t)16 << 30 >> PS_GRANULE_SHIFT;
}

/* Counts memory that another file gave back (a mapping, say). Any thread. */
void ps_purge_count(uint64_t bytes);

void ps_purge_read(struct ps_purge_counts *out);

/* In the child of a fork, by its only thread. */
void ps_purge_fork_child(void);

#endif
