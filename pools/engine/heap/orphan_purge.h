/* SPDX-License-Identifier: MIT */
/*
 * Purge of orphans: spans without an owner from which no thread has allocated for the purge delay.
 * Their free pages return to the system, although other blocks of the span are live
 * (small/span_purge.h). If a few blocks of each span survive a peak, that is most of the memory.
 * Purged spans are adopted after all others of their class.
 *
 * Callers: maintenance.c. Locks only through the layers below; the lists of the orphans are not
 * locked while pages are dropped.
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
