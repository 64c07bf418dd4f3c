/* SPDX-License-Identifier: MIT */
/*
 * The page cache: free runs of 64 KiB granules, split and coalesced, in two sorts: dirty runs are
 * backed by memory, clean ones are not and read as zero. (A third sort, stuck runs, are dirty ones
 * in locked memory, which cannot be purged; they have lists of their own.) Dirty runs are allocated
 * first, because their pages are resident already. Neighbours coalesce within a sort, and across
 * sorts once purging has made them equal. Each kind of arena (plain and huge pages) and each NUMA
 * node (node.h) has its own sorts.
 *
 * Any thread; one lock (PS_RANK_PAGE), held for O(1) steps and, rarely, the reservation of an
 * arena; ps_page_cache_walk, of a census, takes it for the whole heap. Callers: front/store.c,
 * heap/large.c, page/purge.c.
 */
#ifndef PS_PAGE_PAGE_CACHE_H
#define PS_PAGE_PAGE_CACHE_H

#include "pools/engine/base/config.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>

/* Longest run, in granules: 2 GiB. Longer requests are mappings. */
#define PS_RUN_GRANULES_LIMIT ((size_t)32768)

struct ps_page_counts {
    uint64_t arena_count;
    uint64_t arena_granules;  /* reserved */
    uint64_t dirty_granules;  /* free, backed by memory */
    uint64_t stuck_granules;  /* dirty granules whose purge the system refused */
    uint64_t clean_granules;  /* free, not backed */
    uint64_t closed_granules; /* clean granules that are not accessible yet, in no run */
};

/* Called once, before all other functions of the page layer. Any thread; the caller serialises. */
void ps_page_cache_start(const struct ps_config *config);

/*
 * Allocates a run of `granules` whose base is a multiple of align_granules granules. granules:
 * 1..PS_RUN_GRANULES_LIMIT. align_granules: power of two; granules + align_granules within the
 * limit. The run is PS_RUN_BUSY; is_dirty tells whether it may have non-zero bytes. NULL, with
 * nothing changed, when the OS refuses.
 */
struct ps_run *ps_page_cache_take(size_t granules, size_t align_granules);

/*
 * Allocates a run that will soon be filled, preferably in huge pages (see arena.h). granules:
 * 1..4096. Otherwise as ps_page_cache_take without alignment.
 */
struct ps_run *ps_page_cache_take_dense(size_t granules);

/* As ps_page_cache_take without alignment, clean unless many dirty runs are free: for a run that
 * may not be filled. */
struct ps_run *ps_page_cache_take_clean(size_t granules);

/* As ps_page_cache_take, from present runs only: NULL instead of opening more addresses. */
struct ps_run *ps_page_cache_take_present(size_t granules, size_t align_granules);

/* As ps_page_cache_take without alignment, from dirty runs and their clean neighbours only. */
struct ps_run *ps_page_cache_take_dirty(size_t granules);

/* As ps_page_cache_take without alignment, of addresses that serve partitions alone: extents.h. */
struct ps_run *ps_page_cache_take_apart(size_t granules);

/* Returns a run. Never fails. The second variant is for a run without memory, which reads as
 * zero. */
void ps_page_cache_give(struct ps_run *run);
void ps_page_cache_give_zero(struct ps_run *run);

/* Lengthens a run in place by free granules of its kind after it. Returns false when there are
 * none. *is_clean: the added granules read as zero. */
bool ps_page_cache_extend(struct ps_run *run, size_t granules, bool *is_clean);

/* Shortens a run, and returns the tail. */
void ps_page_cache_shrink(struct ps_run *run, size_t granules);

/* Enters a mapping that is not an arena in the page map. Returns its run (kind BUSY, base and
 * granules set); NULL when metadata memory is exhausted. base: multiple of the granule. */
struct ps_run *ps_page_cache_adopt(char *base, size_t granules);

/* Takes accessible, dirty memory that the system refuses to unmap, as arenas. Parts that
 * cannot be entered are purged, and their addresses are lost. */
void ps_page_cache_keep(char *base, size_t granules);

/* The result of purging a run. */
enum ps_purge_result {
    PS_PURGE_DONE,    /* it reads as zero */
    PS_PURGE_LEFT,    /* not tried: still dirty */
    PS_PURGE_REFUSED, /* by the system: allocated before all others, not detached again */
};

struct ps_free_range {
    char *base;
    size_t granules;
};

/*
 * For purge.c. detach_dirty removes dirty runs of together at most `granules` from the cache,
 * longest first, and links them by `next` in front of *list. attach returns `granules` of the first
 * run of a list to the cache, and tells the free run that contains them now. In the child of a fork
 * each run is either in the cache or on the list.
 */
void ps_page_cache_detach_dirty(size_t granules, struct ps_run **list);
struct ps_free_range ps_page_cache_attach(struct ps_run **list, size_t granules,
                                          enum ps_purge_result result);

/* Detaches a whole page of hugetlb.h from the refused run that starts at `base`, if it is still
 * there. */
void ps_page_cache_detach_whole(char *base, struct ps_run **list);

/* Returns such a page, of a detached run, to the system. False: it is as it was. */
bool ps_page_cache_close(char *page);

/* Makes one of the longest refused runs, or at most `granules` of it, dirty again, to be retried.
 * Returns false when there is none. */
bool ps_page_cache_unstick(size_t granules);

void ps_page_cache_count(struct ps_page_counts *out);

/* Calls visit for the first slot of every run in every arena, under the page lock. */
void ps_page_cache_walk(void (*visit)(struct ps_slot *slot, void *context), void *context);

/* Repairs the locks of the page layer in the child of a fork, on its only thread. */
void ps_page_cache_fork_child(void);

/* Protects all bins, the arenas, the page map's root, the run half of every free slot, and the
 * closed pages of hugetlb.h. For the files of the page cache alone. */
extern PS_HIDDEN struct ps_lock ps_page_cache_lock;

/* ---- access to the pages of runs, for the holder of a run (page_cache_access.c) ---- */

/*
 * True at hardening level 2 and above: memory that was never allocated is inaccessible, and
 * returned memory may be. A caller that takes or extends a run must open the part it needs before
 * use.
 */
extern PS_HIDDEN bool ps_page_cache_is_shut;

/* Makes a part of a run accessible; returns false when the system refuses. Both arguments
 * page-aligned. The access of its granules becomes PS_ACCESS_UNKNOWN. */
bool ps_page_cache_open(char *base, size_t bytes);

/* Records the access of these granules. A returned run preserves it, which saves its next user a
 * system call: without this, slabs of few blocks made three in their life, and a loop over blocks
 * of 4 KiB took 50 times as long as at level 0. */
void ps_page_cache_set_access(char *base, size_t granules, enum ps_access access);

/* Makes a part of a run inaccessible, as far as the system permits. Any number of bytes, including
 * 0. */
void ps_page_cache_shut(char *base, size_t bytes);

#endif
