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
 * Two kinds: plain, and huge for dense memory, as the caller of ps_page_cache_take* tells; huge.h
 * has the policy. With POOLSHIM_HUGE=hugetlb, the huge kind has the pages that the system has set
 * aside, for memory of any sort; hugetlb.h has how they are opened.
 *
 * Callers: page_cache.c. Under the page lock unless stated; its undo log notes the arenas
 * and their accessible lengths (after a roll-back a new arena's addresses are lost). Calls the page
 * map and the OS.
 */
#ifndef PS_PAGE_ARENA_H
#define PS_PAGE_ARENA_H

#include "pools/engine/base/undo.h"
#include "pools/engine/page/page_map.h"

enum ps_page_arena_kind {
    PS_PAGE_ARENA_PLAIN, /* usually of ordinary pages: huge.h */
    PS_PAGE_ARENA_HUGE,  /* for dense memory */
    PS_PAGE_ARENA_KINDS,
};

/* Arenas of 1 GiB have 4 TiB together; there are more only if those were refused. */
#define PS_PAGE_ARENA_LIMIT 4096

struct ps_page_arena {
    char *base;
    size_t granules;      /* accessible */
    size_t rest_granules; /* reserved after them */
    enum ps_page_arena_kind kind;
    uint32_t node; /* whose threads it serves: node.h */
};

/*
 * Reserves an arena of a kind and a node for at least `granules` and enters it in the page map,
 * without access. Returns NULL when neither the usual size nor the smallest sufficient one is
 * available. Arenas of the huge kind consist of whole huge pages; the base of others is a multiple
 * of the granule.
 */
struct ps_page_arena *ps_page_arena_reserve(size_t granules, enum ps_page_arena_kind kind,
                                            uint32_t node, struct ps_undo *undo);

/* Enters accessible addresses that the system does not take back as a plain arena of node 0.
 * Returns false if there are as many arenas as can be. */
bool ps_page_arena_adopt(char *base, size_t granules, struct ps_undo *undo);

/*
 * Opens at least `granules` (at most the rest) after the accessible part, or the usual step if that
 * is more. Returns the number of opened granules; 0, with nothing changed, when the system refuses.
 */
size_t ps_page_arena_open(struct ps_page_arena *arena, size_t granules, struct ps_undo *undo);

/* All arenas, in the order of reservation. Page lock; read from outside the process, too:
 * record/layout.h. */
extern PS_HIDDEN struct ps_page_arena ps_page_arenas[];
extern PS_HIDDEN size_t ps_page_arena_x_count;

/* The same, for callers in the library. */
size_t ps_page_arena_count(void);
struct ps_page_arena *ps_page_arena_at(size_t index);

#endif
