/* SPDX-License-Identifier: MIT */
/*
 * Access to the pages of runs, where blocks are hardened from level 2 on. Called by the holder of a
 * run. No locks.
 */
#ifndef PS_PAGE_ACCESS_H
#define PS_PAGE_ACCESS_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Where blocks are hardened from level 2 on, what was never handed out is inaccessible, and what
 * was given back may be: a caller that takes or extends a run opens what it needs of it before use.
 */
extern PS_HIDDEN bool ps_page_cache_is_shut;

/* Makes a part of a run accessible; false when the system refuses. Page-aligned, both. Its granules
 * say PS_ACCESS_UNKNOWN then. */
bool ps_page_cache_open(char *base, size_t bytes);

/* Notes what is true of these granules. They keep it when the run is given back, so that who takes
 * them next need not ask the system for what they are: a span for each few blocks did, three times
 * in its life, and a loop over blocks of 4 KiB took 50 times as long as it does at level 0. */
void ps_page_cache_set_access(char *base, size_t granules, enum ps_access access);

/* And inaccessible, as far as the system does. Any number of bytes, 0 too. */
void ps_page_cache_shut(char *base, size_t bytes);

#endif
