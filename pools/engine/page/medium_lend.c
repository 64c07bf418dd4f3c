/* SPDX-License-Identifier: MIT */
/*
 * Granules of regions that slabs borrow, see medium.h. Called when memory is exhausted. The pages
 * of a lent granule count as used, and the region remains on its list, so it empties as before once
 * they return. Only slots of the borrowed granules change outside of the lock of the region's
 * shard: their pages are the borrower's. If the program forks between both steps, they are lost in
 * the child.
 */
#include "pools/engine/base/atomic.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/medium_regions.h"

/* Takes the pages out of a region of the shard. Returns the region; NULL: none has so many. */
static struct ps_medium_region *take_pages(struct ps_medium_shard *shard, size_t granules,
                                           size_t *first, bool *is_zero) {
    ps_medium_shard_enter(shard);
    struct ps_medium_region *region = ps_medium_regions_find_granules(shard, granules, first);
    if (region != NULL) {
        size_t page = *first * PS_MEDIUM_GRANULE_PAGES;
        ps_medium_regions_unlink(shard, region);
        *is_zero =
            ps_medium_region_use(shard, region, page, page + granules * PS_MEDIUM_GRANULE_PAGES);
        region->longest = (uint16_t)ps_pages_longest(region->free);
        ps_medium_regions_link(shard, region);
        ps_medium_regions_lower(shard);
    }
    ps_medium_shard_leave(shard);
    return region;
}

/* Makes a run of granules of a region. */
static struct ps_run *describe(const struct ps_run *region, size_t first, size_t granules) {
    char *base = region->base + first * PS_GRANULE_BYTES;
    for (size_t i = granules; i-- > 0;) {
        struct ps_slot *slot = ps_page_map_slot(base + i * PS_GRANULE_BYTES);
        /* relaxed, both: as in unmark_granules of medium.c. */
        ps_store_relaxed(&slot->run.kind, (uint8_t)(i == 0 ? PS_RUN_BUSY : PS_RUN_NONE));
        ps_store_relaxed(&slot->run.back, (uint16_t)0);
    }
    struct ps_run *run = &ps_page_map_slot(base)->run;
    run->base = base;
    run->granules = (uint32_t)granules;
    run->is_huge = region->is_huge;
    run->is_stuck = false;
    run->node = region->node;
    return run;
}

struct ps_run *ps_medium_lend(size_t granules, size_t *at) {
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        bool is_zero = false;
        struct ps_medium_region *region = take_pages(shard, granules, at, &is_zero);
        if (region != NULL) {
            struct ps_run *run = describe(ps_medium_run_of(region), *at, granules);
            run->is_dirty = !is_zero;
            return run;
        }
    }
    return NULL;
}

void ps_medium_take_back(struct ps_run *run, size_t at) {
    char *base = run->base;
    size_t granules = run->granules;
    for (size_t i = 0; i < granules; i++) {
        ps_medium_mark_granule(base + i * PS_GRANULE_BYTES, at + i);
    }
    ps_medium_block pages = ps_medium_block_of(base, granules * PS_MEDIUM_GRANULE_PAGES);
    ps_medium_give(&pages, 1);
}
