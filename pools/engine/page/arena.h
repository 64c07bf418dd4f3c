/* SPDX-License-Identifier: MIT */
/*
 * Arenas: the large address ranges that all runs are cut from. Never unmapped: the memory in them
 * goes back by purging.
 *
 *   accessible + the rest == reserved; what is accessible starts at the base
 *
 * Reserved without access, 2 MiB first, 32 MiB then and doubling to 1 GiB, so that a small program
 * reserves little and a large one needs few mappings. Made accessible in steps of an eighth of what
 * there is, 1 to 16 MiB, because mlockall() makes all that is accessible resident, in the mappings
 * that there are and, by MCL_FUTURE, in those that come: with whole arenas, 32 MiB for the first
 * block. Each limit (RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK) makes steps and arenas as small as it
 * demands.
 *
 * Two kinds. In huge pages first touch is four times cheaper per byte, but each touch takes
 * 2 MiB: they are for memory that will be filled. The caller of ps_page_cache_take* says whether it
 * will.
 *
 * Callers: page_cache.c, purge.c. Under the page lock, unless stated, whose undo log notes what
 * arenas there are and how much of each is accessible (rolled back, a new one's addresses are
 * lost); calls the page map and the OS.
 */
#ifndef PS_PAGE_ARENA_H
#define PS_PAGE_ARENA_H

#include "pools/engine/base/config.h"
#include "pools/engine/base/undo.h"
#include "pools/engine/page/page_map.h"

#define PS_HUGE_PAGE_BYTES ((size_t)2 << 20)

enum ps_page_arena_kind {
    PS_PAGE_ARENA_PLAIN, /* ordinary pages, unless POOLSHIM_THP=always */
    PS_PAGE_ARENA_HUGE,  /* huge pages, unless POOLSHIM_THP=never */
    PS_PAGE_ARENA_KINDS,
};

struct ps_page_arena {
    char *base;
    size_t granules;      /* accessible */
    size_t rest_granules; /* reserved behind them */
    enum ps_page_arena_kind kind;
};

/* Once, before the first growth. */
void ps_page_arena_start(enum ps_thp thp);

/*
 * Reserves an arena for at least `granules` of a kind and enters it in the page map; nothing of it
 * is accessible. Returns it, or NULL when neither the usual size nor one that just suffices can be
 * had. Arenas of the huge kind consist of whole huge pages; the base of any other is a multiple of
 * the granule.
 */
struct ps_page_arena *ps_page_arena_reserve(size_t granules, enum ps_page_arena_kind kind,
                                            struct ps_undo *undo);

/*
 * Makes at least `granules` (at most the rest) behind what is accessible accessible too, the usual
 * step if that is more. Returns how many it were; 0 when the system refuses, and nothing changed.
 */
size_t ps_page_arena_open(struct ps_page_arena *arena, size_t granules, struct ps_undo *undo);

/*
 * A run of an arena of huge pages has been purged: those that it shares with others stay apart, as
 * small pages, those that it fills may come again whole. Any thread, without the page lock.
 */
void ps_page_arena_keep_holes(char *base, size_t granules);

/* All arenas so far, in the order they were reserved. */
size_t ps_page_arena_count(void);
struct ps_page_arena *ps_page_arena_at(size_t index);

#endif
