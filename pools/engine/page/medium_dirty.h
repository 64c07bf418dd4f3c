/* SPDX-License-Identifier: MIT */
/*
 * The free, dirty pages of a region while they are purged: they are not free meanwhile. Lock
 * PS_RANK_MEDIUM; caller: medium_purge.c.
 */
#ifndef PS_PAGE_MEDIUM_DIRTY_H
#define PS_PAGE_MEDIUM_DIRTY_H

#include "pools/engine/page/medium.h"

/* Empty: region is NULL. Written under the lock by the one thread that purges. */
struct ps_medium_detached {
    struct ps_medium_region *region;
    uint64_t pages[PS_PAGE_BIT_WORDS];
};

/* Detaches those of the region with the longest hole, at most `limit`. Returns how many; 0: there
 * are none. */
size_t ps_medium_detach_dirty(struct ps_medium_detached *detached, size_t limit);

/* They are free again; `purged`, of them, are clean, and the system has refused the others. NULL:
 * it was not asked. */
void ps_medium_attach(struct ps_medium_detached *detached,
                      const uint64_t purged[PS_PAGE_BIT_WORDS]);

/* Makes one of the regions with refused pages one to be tried again. False: there is none. */
bool ps_medium_unstick(void);

#endif
