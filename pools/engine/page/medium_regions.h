/* SPDX-License-Identifier: MIT */
/*
 * The regions of medium blocks (medium.h) and their pages: the list of a region, its free and its
 * dirty pages, and the totals.
 *
 * Regions are divided into shards, each with a lock (PS_RANK_MEDIUM), lists, counts and low-water
 * marks of its own. A region belongs to the shard of the thread that made it, until it returns to
 * the page cache. So the owner of a block in it may read x_shard without a lock. A process begins
 * with one shard for each node (node.h). When a sixteenth of the sections of a shard found its lock
 * taken, the number of shards doubles, up to that of the processors. Each serves some of the
 * threads. Without contention one shard has all regions, so a block gets the best fit.
 *
 * A region is on the list of its shard, of its sort and of the length of its longest hole. It is
 * removed before its pages change and inserted again afterwards; counts are those of the regions on
 * lists. The undo log of the lock notes each change. Callers: medium.c, medium_lend.c,
 * medium_purge.c.
 */
#ifndef PS_PAGE_MEDIUM_REGIONS_H
#define PS_PAGE_MEDIUM_REGIONS_H

#include "pools/engine/os/lock.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/retention.h"

#define PS_MEDIUM_SHARDS 64         /* of all nodes together */
#define PS_MEDIUM_SHARDS_OF_NODE 16 /* a power of two */

struct ps_medium_lists;

/* index and node are constant, and the lock of the purge protects low_water (retention.h) and due;
 * the lock protects the rest. */
struct ps_medium_shard {
    struct ps_lock lock;
    struct ps_medium_lists *lists; /* one for each sort of regions */
    struct ps_medium_counts counts;
    struct ps_low_water low_water; /* of dirty pages that the system did not refuse */
    uint64_t due;                  /* pages found idle, not purged yet */
    uint64_t x_dirty;              /* counts.dirty_pages, read without the lock */
    uint32_t empty_count;          /* regions without blocks */
    uint16_t sections;             /* since the last decision on contention */
    uint16_t waits;                /* sections that found the lock taken */
    uint8_t spread;                /* shards of a node when they began */
    uint8_t index;
    uint8_t node;
};

/* ---- shards ---- */

/* The first is static; entries after the last are NULL. */
extern PS_HIDDEN struct ps_medium_shard *ps_medium_x_shards[PS_MEDIUM_SHARDS];

/* NULL after the last one. */
static inline struct ps_medium_shard *ps_medium_shard_at(size_t index) {
    /* acquire: pairs with the store of the thread that made it. */
    return index < PS_MEDIUM_SHARDS ? ps_load_acquire(&ps_medium_x_shards[index]) : NULL;
}

static inline struct ps_medium_shard *ps_medium_shard_after(const struct ps_medium_shard *shard) {
    return ps_medium_shard_at((size_t)shard->index + 1);
}

/* All of them, the first one first. */
#define PS_MEDIUM_EACH_SHARD(shard)                                                                \
    struct ps_medium_shard *shard = ps_medium_shard_at(0);                                         \
    shard != NULL;                                                                                 \
    shard = ps_medium_shard_after(shard)

/* The shard of the calling thread, of the node where it runs. */
struct ps_medium_shard *ps_medium_shard_here(void);

/* Locks a shard; from time to time decides whether contention calls for more shards. */
void ps_medium_shard_enter(struct ps_medium_shard *shard);

static inline void ps_medium_shard_leave(struct ps_medium_shard *shard) {
    ps_store_relaxed(&shard->x_dirty, shard->counts.dirty_pages); /* relaxed: a hint */
    ps_lock_release(&shard->lock);
}

/* How many shards a node has: a power of two up to PS_MEDIUM_SHARDS_OF_NODE. Tests set it, too. */
uint32_t ps_medium_spread(void);
void ps_medium_set_spread(uint32_t shards);

/* ---- regions ---- */

static inline struct ps_medium_region *ps_medium_region_of_run(struct ps_run *run) {
    return (struct ps_medium_region *)ps_slot_of_run(run);
}

static inline struct ps_run *ps_medium_run_of(struct ps_medium_region *region) {
    return &((struct ps_slot *)region)->run;
}

static inline struct ps_medium_shard *ps_medium_shard_of(const struct ps_medium_region *region) {
    /* relaxed: constant while a block of the region is live; a wild pointer may read any number. */
    uint8_t index = ps_load_relaxed(&region->x_shard);
    struct ps_medium_shard *shard = ps_medium_shard_at(index);
    return PS_LIKELY(shard != NULL) ? shard : ps_medium_shard_at(0);
}

/* ---- lists; under the lock of the shard, here and below ---- */

/* Notes the word of a field before it changes. */
void ps_medium_regions_note(struct ps_medium_shard *shard, const void *at);

/* Inserts a region of the shard that is on no list; counts a new one, which becomes the shard's. */
void ps_medium_regions_link(struct ps_medium_shard *shard, struct ps_medium_region *region);
void ps_medium_regions_link_new(struct ps_medium_shard *shard, struct ps_medium_region *region);

/* Removes a region from its list. */
void ps_medium_regions_unlink(struct ps_medium_shard *shard, struct ps_medium_region *region);

/* Removes and returns an empty region, if there are more than `kept`; else NULL. */
struct ps_run *ps_medium_regions_take_empty(struct ps_medium_shard *shard, size_t kept);

/* The region with the shortest longest hole of at least so many pages, or NULL. Among several: one
 * with pages that cannot be purged, then one with dirty ones. */
struct ps_medium_region *ps_medium_regions_find(const struct ps_medium_shard *shard, size_t pages);

/* Among the regions with so many adjacent free granules, not counting the first of the region, the
 * one whose longest hole is shortest. *first: the index of the first of them. NULL: there is none.
 * Cost: a walk over all regions with such holes. */
struct ps_medium_region *ps_medium_regions_find_granules(const struct ps_medium_shard *shard,
                                                         size_t granules, size_t *first);

/* The region with the longest hole among those with pages to purge, or NULL; any region with
 * refused pages, or NULL. */
struct ps_medium_region *ps_medium_regions_find_dirty(const struct ps_medium_shard *shard);
struct ps_medium_region *ps_medium_regions_find_refused(const struct ps_medium_shard *shard);

/* Dirty pages, without those whose purge the system refused. */
static inline uint64_t ps_medium_regions_dirty(const struct ps_medium_shard *shard) {
    return shard->counts.dirty_pages - shard->counts.refused_pages;
}

/* Notes that fewer pages are dirty now. */
static inline void ps_medium_regions_lower(struct ps_medium_shard *shard) {
    ps_low_water_note(&shard->low_water, ps_medium_regions_dirty(shard));
}

/* ---- pages of a region that is on no list ---- */

/* Makes pages [from, to), of one hole, used; their contents are undefined from now on. The caller
 * updates the longest hole. Returns whether they were clean. */
bool ps_medium_region_use(struct ps_medium_shard *shard, struct ps_medium_region *region,
                          size_t from, size_t to);

/* Makes pages [from, to) free and dirty, and updates the longest hole. */
void ps_medium_region_free(struct ps_medium_shard *shard, struct ps_medium_region *region,
                           size_t from, size_t to);

#endif
