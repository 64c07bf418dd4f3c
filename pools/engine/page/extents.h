/* SPDX-License-Identifier: MIT */
/*
 * Extents: the granules of a partition of the heap (front/partition.h). No other partition gets a
 * granule of an extent, nor does the plain heap, while the partition exists: a freed run is purged
 * after a while, and serves the same partition again.
 *
 * Extents are cut from arenas of their own (PS_NODE_APART of node.h). The first has 8 granules, the
 * next ones twice as many, up to 64. When a partition ends, its extents return there, for the next
 * one. The plain heap never gets an address of these arenas. A run longer than 32 granules
 * is an extent, and a mapping, of its own: its memory returns to the system when it is freed, its
 * addresses serve the partition again, and are unmapped when that ends.
 *
 * An extent has three bits for each granule: free, dirty, and aged, which says that it was free and
 * dirty at the end of an epoch. Two epochs are a purge delay; at the end of an epoch, granules that
 * are aged are purged. A search for a run tries PS_EXTENT_TRIES extents at most.
 *
 * The user of a run has a pointer to its extent in its slot, which tells the partition.
 *
 * Any thread; a lock for each partition (PS_RANK_EXTENTS), held for a search. A fork needs no undo
 * log: the child loses what another thread was moving, one run. Callers: front/store_lists.c,
 * front/partition.c, heap/large.c, heap/reservoirs.c.
 */
#ifndef PS_PAGE_EXTENTS_H
#define PS_PAGE_EXTENTS_H

#include "pools/engine/os/lock.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_EXTENT_GRANULES 64     /* at most; a long run's has more */
#define PS_EXTENT_RUN_GRANULES 32 /* longer runs, and larger alignments, have mappings */
#define PS_EXTENT_TRIES 32

/* Lock of the owner, constant fields excepted. A long one has bit 0 for all of it. */
struct ps_extent {
    struct ps_extents *owner; /* constant while it exists */
    struct ps_extent *next;
    char *base;        /* constant */
    uint32_t granules; /* constant */
    bool is_long;      /* constant */
    uint64_t free;
    uint64_t dirty; /* free and not zero, perhaps; or used */
    uint64_t aged;  /* of them, free at the end of the last epoch */
};

/* used + free == all, in granules of extents; dirty_free of the free ones. Zero: none yet. */
struct ps_extents {
    struct ps_lock lock;
    struct ps_extent *first;      /* newest first; NULL: none */
    struct ps_extent *hint;       /* where a search begins */
    struct ps_extent *first_long; /* newest first */
    struct ps_extents *next_made; /* of all partitions; constant */
    uint64_t x_granules;
    uint64_t x_used;
    uint64_t x_dirty_free;
};

/* Free granules of all extents in arenas. Any thread adds; read from outside the process, too. */
struct ps_extents_counts {
    uint64_t x_dirty;
    uint64_t x_clean;
    uint64_t x_reserved; /* likewise, free granules of mappings: without memory */
};
extern PS_HIDDEN struct ps_extents_counts ps_extents_x_counts;

/* Once for each, before its first use. extents: zeroed, and never unmapped. */
void ps_extents_make(struct ps_extents *extents);

/*
 * Allocates a run, BUSY; *is_dirty of the run tells whether it may have non-zero bytes. granules:
 * up to PS_EXTENT_LONG_LIMIT; align_granules: a power of two. *extent: its extent. NULL when memory
 * is exhausted, or below a signal handler that forks. Blocks are accessible as those of
 * ps_page_cache_take are.
 */
#define PS_EXTENT_LONG_LIMIT ((size_t)UINT32_MAX / 2)
struct ps_run *ps_extents_take(struct ps_extents *extents, size_t granules, size_t align_granules,
                               struct ps_extent **extent);

/* Returns a run of an extent. */
void ps_extents_give(struct ps_extent *extent, struct ps_run *run);

/* Calls `visit` for the slot of each used run. While no other thread uses the partition. */
void ps_extents_walk(struct ps_extents *extents, void (*visit)(struct ps_slot *slot, void *context),
                     void *context);

/* Returns all extents, for other partitions. Each run has been returned. While no other thread uses
 * the partition. */
void ps_extents_empty(struct ps_extents *extents);

/* ---- purge: extents_purge.c ---- */

/* True if a step may have something to do. */
static inline bool ps_extents_have_dirty(void) {
    return ps_load_relaxed(&ps_extents_x_counts.x_dirty) != 0; /* relaxed: a hint */
}

/* A step of purging: granules that are due, or, if is_asked, all. *bytes: adds what was released.
 * Returns whether there is more to do. One thread at a time; others return at once. */
bool ps_extents_purge_tick(uint64_t now_ms, bool is_asked, uint64_t *bytes);

/* Excludes the purge of granules, for the end of a partition. Blocks for a step of it. */
void ps_extents_purge_stop(const struct ps_extents *ending);
void ps_extents_purge_resume(void);

/* All that were made, newest first. */
extern PS_HIDDEN struct ps_extents *ps_extents_x_made;

/* Changes the sums of free granules. Under the lock of the extents. */
void ps_extents_count_free(struct ps_extents *extents, const struct ps_extent *extent,
                           uint64_t before_free, uint64_t before_dirty);

/* In the child of a fork, on its only thread. */
void ps_extents_fork_child(void);
void ps_extents_purge_fork_child(void);

#endif
