/* SPDX-License-Identifier: MIT */
/*
 * A walk over all runs without the page lock, for a report from a signal handler, whose thread may
 * have taken it. Arenas and slots are never unmapped, so a walk beside changes reads old words at
 * worst: a run that is being split or joined may be visited twice or not at all. Callers:
 * record/census.c. No locks.
 */
#ifndef PS_PAGE_PAGE_PEEK_H
#define PS_PAGE_PAGE_PEEK_H

#include "pools/engine/page/page_map.h"

/* As ps_page_cache_walk, free runs included. */
void ps_page_peek(void (*visit)(struct ps_slot *slot, void *context), void *context);

/* Granules reserved in arenas, and those of them that are not accessible yet. */
void ps_page_peek_arenas(uint64_t *granules, uint64_t *closed_granules);

#endif
