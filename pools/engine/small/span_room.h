/* SPDX-License-Identifier: MIT */
/*
 * Which addresses of a span hold blocks and can be accessed. Where blocks are not hardened: all.
 * Else (level 2 and 3 of harden/hard.h) the last page cannot; and of a sparse span only a page or
 * two at a random place can, so that an access a page away from a block, or any multiple of a
 * granule, meets inaccessible addresses as a rule. Caller: span.c. No locks.
 */
#ifndef PS_SMALL_SPAN_ROOM_H
#define PS_SMALL_SPAN_ROOM_H

#include "pools/engine/small/span.h"

/* Sets first and limit of a fresh span, and makes what lies between accessible. False when
 * the system refuses. */
bool ps_span_open(struct ps_span *span, bool is_sparse);

/* Before the run goes back to the page cache. What a span of the usual kind could access stays
 * accessible: it was handed out before. */
void ps_span_shut(const struct ps_span *span);

#endif
