/* SPDX-License-Identifier: MIT */
/*
 * The free, dirty pages of a region during their purge, in which they are not free. Lock
 * PS_RANK_MEDIUM; caller: medium_purge.c.
 */
#ifndef PS_PAGE_MEDIUM_DIRTY_H
#define PS_PAGE_MEDIUM_DIRTY_H

#include "pools/engine/page/medium.h"

/* Empty: region is NULL. Written under the lock by the purging thread. */
struct ps_medium_detached {
    struct ps_medium_region *region;
    uint64_t pages[PS_PAGE_BIT_WORDS];
};

/* Detaches those of the region with the longest hole, at most `limit`. Returns their number; 0:
 * there are none. */
size_t ps_medium_detach_dirty(struct ps_medium_detached *detached, size_t limit);

/* Frees them again; those in `purged` are clean, and the system has refused the others. NULL: it
 * was not asked. */
void ps_medium_attach(struct ps_medium_detached *detached,
                      const uint64_t purged[PS_PAGE_BIT_WORDS]);

/* Makes one of the regions with refused pages dirty again, to be retried. Returns false when there
 * is none. */
bool ps_medium_unstick(void);

#endif
