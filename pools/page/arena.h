/* SPDX-License-Identifier: MIT */
/*
 * Arenas: the large address ranges that all runs are cut from. Reserved without memory behind
 * them, 32 MiB first and doubling to 1 GiB, so that a small program reserves little and a large
 * one needs few mappings. Never unmapped: the memory in them goes back by purging.
 *
 * Two kinds. In huge pages first touch is four times cheaper per byte, but each touch takes
 * 2 MiB: they are for memory that will be filled. Whoever takes a run says whether it will.
 *
 * Callers: page_cache.c, purge.c. Under the page lock, but for what says otherwise; calls the page
 * map and the OS.
 */
#ifndef PS_PAGE_ARENA_H
#define PS_PAGE_ARENA_H

#include "pools/base/config.h"
#include "pools/page/page_map.h"

enum ps_page_arena_kind {
    PS_PAGE_ARENA_PLAIN, /* ordinary pages, unless POOLSHIM_THP=always */
    PS_PAGE_ARENA_HUGE,  /* huge pages, unless POOLSHIM_THP=never */
    PS_PAGE_ARENA_KINDS,
};

struct ps_page_arena {
    char *base;
    size_t slices;
};

/* Once, before the first growth. */
void ps_page_arena_start(enum ps_thp thp);

/*
 * Reserves an arena of at least `slices` of a kind and enters it in the page map.
 * Returns it, or NULL when neither the usual size nor the smallest sufficient one can be had.
 */
const struct ps_page_arena *ps_page_arena_grow(size_t slices, enum ps_page_arena_kind kind);

/*
 * A run of an arena of huge pages has been purged: those that it shares with others stay apart, as
 * small pages, those that it fills may come again whole. Any thread, without the page lock.
 */
void ps_page_arena_keep_holes(char *base, size_t slices);

/* All arenas so far, in the order they were reserved. */
size_t ps_page_arena_count(void);
const struct ps_page_arena *ps_page_arena_at(size_t index);

#endif
