/* SPDX-License-Identifier: MIT */
/*
 * Pools of objects of one size: options that may change while they live. No locks.
 */
#include "pools/pool/pool.h"

#include <errno.h>

void ps_pool_set_growth(struct ps_pool *pool, size_t next_bytes, size_t max_bytes) {
    ps_chunks_set_growth(ps_pool_growth(pool), next_bytes, max_bytes);
}

/* uncarved_count + carved of all chunks == limit, once no chunk is current: so the present limit
 * gives the carved count, which gives the rest of a new limit. */
bool ps_pool_set_max_items(struct ps_pool *pool, size_t max_items) {
    ps_pool_settle(pool);
    size_t limit = pool->max_items != 0 ? pool->max_items : SIZE_MAX;
    size_t carved = limit - pool->uncarved_count;
    size_t wanted = max_items != 0 ? max_items : SIZE_MAX;
    if (wanted < carved) {
        errno = EINVAL;
        return false;
    }
    pool->max_items = max_items;
    pool->uncarved_count = wanted - carved;
    return true;
}
