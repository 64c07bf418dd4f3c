/* SPDX-License-Identifier: MIT */
/*
 * The depot: free pages that all threads share, and the way to and from the page cache. Runs of
 * fewer than 16 pages share granules; each granule has a bitmap of its free pages in its slot.
 * Longer runs are granules of their own, except the pages after their end, which are free for
 * others.
 *
 * Every granule in use is PS_RUN_PAGES and a run of length one, so that any part of a run can be
 * returned by itself, and the slot has for every page whether it is allocated. A granule whose
 * pages are all free returns to the page cache; pages that are free longer than the purge delay are
 * purged in place.
 *
 * A place is the address of a run of pages, plus PS_PLACE_ZERO if it is known to read as zero.
 *
 * Any thread. One lock (PS_RANK_DEPOT), under which nothing else is called. Callers: pages.c,
 * magazine.c.
 */
#ifndef PS_PAGES_DEPOT_H
#define PS_PAGES_DEPOT_H

#include "pools/engine/page/page_map.h"

#include <poolshim/pages.h>

#define PS_PLACE_ZERO ((uintptr_t)1)
#define PS_GRANULE_PAGES ((size_t)16) /* per granule */

static inline char *ps_place_pages(uintptr_t place) { return (char *)(place & ~PS_PLACE_ZERO); }

/*
 * Takes up to `count` runs of `pages` pages each, all from one granule if it has that many. pages:
 * 1..15; runs are aligned to the power of two above their length. Returns their number; 0 when
 * memory is exhausted.
 */
size_t ps_depot_take(size_t pages, size_t count, uintptr_t *places);

/* Takes one run of any length. pages: > 0, at most PTRDIFF_MAX bytes. align: power of two, in
 * bytes, at most 2 MiB. 0 when memory is exhausted. */
uintptr_t ps_depot_take_one(size_t pages, size_t align);

/* Returns runs, each of `pages` pages and inside one granule. Aborts when they are not
 * allocated. */
void ps_depot_give(const uintptr_t *places, size_t count, size_t pages);

/* Returns any pages. Aborts when they are not allocated. */
void ps_depot_give_one(uintptr_t place, size_t pages);

/* Aborts when any of the pages is not allocated. O(granules). */
void ps_depot_check(const char *base, size_t pages);

struct ps_depot_counts {
    size_t out_bytes;    /* with programs and magazines */
    size_t dirty_bytes;  /* free here, resident */
    size_t mapped_bytes; /* in mappings of their own */
};
void ps_depot_count(struct ps_depot_counts *out);

/* In the child of a fork, on its only thread: repairs the lock; then, with all locks free, frees
 * the pages that another thread was purging. */
void ps_depot_fork_child(void);
void ps_depot_fork_salvage(void);

#endif
