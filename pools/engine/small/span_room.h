/* SPDX-License-Identifier: MIT */
/*
 * Usable addresses of a span. Without hardening: all. At levels 2 and 3 (harden/hard.h) the last
 * page is inaccessible, and a sparse span has only one or two accessible pages at a random place,
 * so that an access one page, or a multiple of a granule, away from a block usually faults. Caller:
 * span.c. No locks.
 */
#ifndef PS_SMALL_SPAN_ROOM_H
#define PS_SMALL_SPAN_ROOM_H

#include "pools/engine/small/span.h"

/* Sets first and limit of a fresh span, and makes its blocks accessible. Returns false when the
 * system refuses. */
bool ps_span_open(struct ps_span *span, bool is_sparse);

/* Called before the run returns to the page cache. Pages that a span of the usual kind could access
 * stay accessible. */
void ps_span_shut(const struct ps_span *span);

#endif
