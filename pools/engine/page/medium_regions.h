/* SPDX-License-Identifier: MIT */
/*
 * The regions of medium blocks (medium.h) and their pages: the list of a region, its free and its
 * dirty pages, and the totals. All under PS_RANK_MEDIUM, the lock of this file, whose undo log
 * notes each change. Callers: medium.c, medium_purge.c.
 *
 * A region is on the list of its node, of its sort and of the length of its longest hole. It is
 * removed before its pages change and inserted again afterwards; counts are those of the regions on
 * lists.
 */
#ifndef PS_PAGE_MEDIUM_REGIONS_H
#define PS_PAGE_MEDIUM_REGIONS_H

#include "pools/engine/os/lock.h"
#include "pools/engine/page/medium.h"

extern PS_HIDDEN struct ps_lock ps_medium_regions_lock;

/* Notes the word of a field before it changes. */
void ps_medium_regions_note(const void *at);

static inline struct ps_medium_region *ps_medium_region_of_run(struct ps_run *run) {
    return (struct ps_medium_region *)ps_slot_of_run(run);
}

static inline struct ps_run *ps_medium_run_of(struct ps_medium_region *region) {
    return &((struct ps_slot *)region)->run;
}

/* ---- lists; lock held, here and below ---- */

/* Inserts a region that is on no list; counts a new one. */
void ps_medium_regions_link(struct ps_medium_region *region);
void ps_medium_regions_link_new(struct ps_medium_region *region);

/* Removes a region from its list. */
void ps_medium_regions_unlink(struct ps_medium_region *region);

/* Removes and returns an empty region, if there are more than `kept`; else NULL. */
struct ps_run *ps_medium_regions_take_empty(size_t kept);

/* The region of a node with the shortest longest hole of at least so many pages, or NULL. Among
 * several: one with pages that cannot be purged, then one with dirty ones. */
struct ps_medium_region *ps_medium_regions_find(size_t pages, uint32_t node);

/* The region with the longest hole among those with pages to purge, or NULL; any region with
 * refused pages, or NULL. */
struct ps_medium_region *ps_medium_regions_find_dirty(void);
struct ps_medium_region *ps_medium_regions_find_refused(void);

void ps_medium_regions_count(struct ps_medium_counts *out);

/* ---- pages of a region that is on no list ---- */

/* Makes pages [from, to), in a hole of `hole` pages, used; they may hold anything from now on.
 * Returns whether they were clean. */
bool ps_medium_region_use(struct ps_medium_region *region, size_t from, size_t to, size_t hole);

/* Makes pages [from, to) free and dirty. */
void ps_medium_region_free(struct ps_medium_region *region, size_t from, size_t to);

#endif
