/* SPDX-License-Identifier: MIT */
/*
 * The page cache: free runs of 64 KiB granules, split and coalesced, in two sorts: dirty ones hold
 * memory, clean ones hold none and read as zero. (A third, of dirty runs in locked memory, which
 * cannot be purged, keeps them out of the way of those that can.) Dirty runs are handed out first
 * (their pages are paid for); neighbours coalesce within a sort, and across when purging has made
 * them the same. Each kind of arena (plain and huge pages) has its own two sorts.
 *
 * Any thread; one lock (PS_RANK_PAGE), held for O(1) steps and, rarely, the reservation of an
 * arena. Callers: small/span.c, heap/large.c, page/purge.c.
 */
#ifndef PS_PAGE_PAGE_CACHE_H
#define PS_PAGE_PAGE_CACHE_H

#include "pools/engine/base/config.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>

/* Longest run, in granules: 2 GiB. Longer requests are mappings of their own. */
#define PS_RUN_GRANULES_LIMIT ((size_t)32768)

struct ps_page_counts {
    uint64_t arena_count;
    uint64_t arena_granules;  /* reserved */
    uint64_t dirty_granules;  /* free, hold memory */
    uint64_t stuck_granules;  /* of the dirty ones: the system refused to drop their memory */
    uint64_t clean_granules;  /* free, hold none */
    uint64_t closed_granules; /* of the clean ones: not accessible yet, in no run */
};

/* Once, before anything else of the page layer. Any thread, caller serialises. */
void ps_page_cache_start(const struct ps_config *config);

/*
 * A run of `granules` whose base is a multiple of align_granules granules.
 * granules: 1..PS_RUN_GRANULES_LIMIT. align_granules: power of two; granules + align_granules
 * within the limit. The run is PS_RUN_BUSY; is_dirty tells whether it may hold anything but zeroes.
 * NULL when the OS refuses; nothing has changed.
 */
struct ps_run *ps_page_cache_take(size_t granules, size_t align_granules);

/*
 * A run that will soon be filled, best in huge pages (see arena.h). granules: 1..4096. Else as
 * ps_page_cache_take without alignment.
 */
struct ps_run *ps_page_cache_take_dense(size_t granules);

/* As ps_page_cache_take, but only of what is there: NULL rather than more addresses. */
struct ps_run *ps_page_cache_take_present(size_t granules, size_t align_granules);

/* As ps_page_cache_take without alignment, but only of what holds memory already. */
struct ps_run *ps_page_cache_take_dirty(size_t granules);

/* Gives a run back; its tenant bytes must say PS_KEY_NOBODY already. Never fails. The second: it
 * holds no memory, and reads as zero. */
void ps_page_cache_give(struct ps_run *run);
void ps_page_cache_give_zero(struct ps_run *run);

/* Lengthens a run in place by taking free granules of its kind behind it. False when there are
 * none. *is_clean: the added granules read as zero. */
bool ps_page_cache_extend(struct ps_run *run, size_t granules, bool *is_clean);

/* Shortens a run; what is cut off is given back. */
void ps_page_cache_shrink(struct ps_run *run, size_t granules);

/* Enters a mapping that is no arena into the page map. Returns its run (kind BUSY, base and
 * granules set), NULL when metadata memory ran out. base: multiple of the granule. */
struct ps_run *ps_page_cache_adopt(char *base, size_t granules);

/* What came of purging a run. */
enum ps_purge_result {
    PS_PURGE_DONE,    /* it reads as zero */
    PS_PURGE_LEFT,    /* not tried: it is as dirty as it was */
    PS_PURGE_REFUSED, /* by the system: handed out before all others, not detached again */
};

/* For purge.c: takes dirty runs of together at most `granules`, largest first, off the cache and
 * links them by `next` in front of *list; and takes `granules` of the first run of a list back. In
 * the child of a fork each run is either in the cache or on the list. */
void ps_page_cache_detach_dirty(size_t granules, struct ps_run **list);
void ps_page_cache_attach(struct ps_run **list, size_t granules, enum ps_purge_result result);

/* Makes one of the longest refused runs, or at most `granules` of it, a dirty one again, to be
 * tried once more. False when there is none. */
bool ps_page_cache_unstick(size_t granules);

void ps_page_cache_count(struct ps_page_counts *out);

/* Calls visit for the first slot of every run in every arena, page lock held. */
void ps_page_cache_walk(void (*visit)(struct ps_slot *slot, void *context), void *context);

/* In the child of a fork, by its only thread: repairs the locks of the whole page layer. */
void ps_page_cache_fork_child(void);

#endif
