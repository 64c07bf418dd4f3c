/* SPDX-License-Identifier: MIT */
/*
 * Access to the pages of runs, for hardening level 2 and above. Called by the holder of a run. No
 * locks.
 */
#ifndef PS_PAGE_ACCESS_H
#define PS_PAGE_ACCESS_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * True at hardening level 2 and above: memory that was never allocated is inaccessible, and
 * returned memory may be. A caller that takes or extends a run must open the part it needs before
 * use.
 */
extern PS_HIDDEN bool ps_page_cache_is_shut;

/* Makes a part of a run accessible; returns false when the system refuses. Both arguments
 * page-aligned. The access of its granules becomes PS_ACCESS_UNKNOWN. */
bool ps_page_cache_open(char *base, size_t bytes);

/* Records the access of these granules. They keep it when the run is returned, so that the next
 * holder need not change it by a system call: spans of few blocks did, three times in their life,
 * and a loop over blocks of 4 KiB took 50 times as long as at level 0. */
void ps_page_cache_set_access(char *base, size_t granules, enum ps_access access);

/* Makes a part of a run inaccessible, as far as the system permits. Any number of bytes, including
 * 0. */
void ps_page_cache_shut(char *base, size_t bytes);

#endif
