/* SPDX-License-Identifier: MIT */
/*
 * Arenas: the large address ranges from which all runs are cut. Never unmapped: their memory
 * returns to the system by purging.
 *
 *   accessible + the rest == reserved; the accessible part starts at the base
 *
 * Reserved without access, first 2 MiB, then 32 MiB, doubling to 1 GiB, so that a small program
 * reserves little and a large one needs few mappings. Opened in steps of an eighth of the
 * accessible bytes, 1 to 16 MiB, because mlockall() makes all accessible memory resident, in
 * present mappings and, with MCL_FUTURE, in later ones: with whole arenas that was 32 MiB for the
 * first block. Under a limit (RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK) steps and arenas become as
 * small as it requires.
 *
 * Two kinds. In huge pages the first touch is four times cheaper per byte, but each touch allocates
 * 2 MiB: they are for memory that will be filled, which the caller of ps_page_cache_take* tells.
 *
 * Callers: page_cache.c, purge.c. Under the page lock unless stated; its undo log notes the arenas
 * and their accessible lengths (after a roll-back a new arena's addresses are lost). Calls the page
 * map and the OS.
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

/* Sets the policy. Called once, before the first growth. */
void ps_page_arena_start(enum ps_thp thp);

/*
 * Reserves an arena of a kind for at least `granules` and enters it in the page map, without
 * access. Returns NULL when neither the usual size nor the smallest sufficient one is available.
 * Arenas of the huge kind consist of whole huge pages; the base of others is a multiple of the
 * granule.
 */
struct ps_page_arena *ps_page_arena_reserve(size_t granules, enum ps_page_arena_kind kind,
                                            struct ps_undo *undo);

/*
 * Opens at least `granules` (at most the rest) behind the accessible part, or the usual step if
 * that is more. Returns the number of opened granules; 0, with nothing changed, when the system
 * refuses.
 */
size_t ps_page_arena_open(struct ps_page_arena *arena, size_t granules, struct ps_undo *undo);

/*
 * Advises the system after a purge in an arena of huge pages: those that the run shares with others
 * stay split into small pages, those that it fills may become whole again. Any thread, without the
 * page lock.
 */
void ps_page_arena_keep_holes(char *base, size_t granules);

/* All arenas, in the order of reservation. */
size_t ps_page_arena_count(void);
struct ps_page_arena *ps_page_arena_at(size_t index);

#endif
