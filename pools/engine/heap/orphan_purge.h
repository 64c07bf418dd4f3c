/* SPDX-License-Identifier: MIT */
/*
 * Purge of orphans: free pages of spans without an owner that no thread has allocated from for the
 * purge delay return to the system (small/span_purge.h), although other blocks of the span are
 * live. After a peak of which a few blocks in each span stay, that is most of the memory. Such
 * spans are adopted after all others of their class.
 *
 * Locks only through the layers below; the lists of the orphans are not locked while pages are
 * dropped.
 */
#ifndef PS_HEAP_ORPHAN_PURGE_H
#define PS_HEAP_ORPHAN_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A step by the background thread, a quarter of a millisecond. is_asked: without regard to the
 * delay, for a trim. Adds to *bytes what it purged. Returns whether more is due. */
bool ps_orphan_purge_tick(uint64_t now_ms, bool is_asked, uint64_t *bytes);

/* Purges all orphans at once. Any thread. Returns the number of bytes. */
size_t ps_orphan_purge_all(void);

#endif
