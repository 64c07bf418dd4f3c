/* SPDX-License-Identifier: MIT */
/*
 * Purge within a span: pages with free blocks only return to the system, although blocks in other
 * pages of the span are live.
 */
#ifndef PS_SMALL_SPAN_PURGE_H
#define PS_SMALL_SPAN_PURGE_H

#include "pools/engine/small/span.h"

#include <stddef.h>

/*
 * Purges the pages of a span in which no block is out. Their blocks become gaps (struct ps_gap),
 * which cost no page until they are granted; the other free blocks become one list, in ascending
 * order. Owner, or a thread that has taken an orphan off its list. The account is settled, and the
 * span is in no bin.
 *
 * Returns the number of bytes. 0: no block is out, less than two pages could be purged, or the
 * system refused; returned blocks have been collected. Cost: a cache miss for each free block, and
 * a system call for each hole.
 */
size_t ps_span_purge(struct ps_span *span);

/* Spans of a class can be purged: of one granule, and the system's pages are shorter. */
bool ps_span_may_purge(uint32_t class_index);

#endif
