/* SPDX-License-Identifier: MIT */
/*
 * What must always be true of regions of medium blocks, when no other thread is inside the engine.
 * Included by tests of page/medium.c and its callers.
 */
#ifndef PS_TESTS_UNIT_REGION_CHECK_H
#define PS_TESTS_UNIT_REGION_CHECK_H

#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "tests/unit/unit.h"

struct region_sum {
    struct ps_medium_counts counts;
    uint64_t marked_pages; /* of blocks that are live or in a front */
    uint64_t lost_pages;   /* neither free nor of a block with a mark */
    uint64_t lent_pages;   /* of granules that slabs have borrowed */
};

static inline bool region_is_free(const struct ps_medium_region *region, size_t page) {
    return ((region->free[page / 64] >> page % 64) & 1) != 0;
}

/* Blocks do not overlap each other, nor free pages. */
static void region_add_marks(const struct ps_slot *slot, struct region_sum *sum) {
    const struct ps_medium_region *region = (const struct ps_medium_region *)slot;
    size_t block_end = 0;
    for (size_t page = 0; page < PS_PAGE_BITS; page++) {
        const char *address = slot->run.base + (page << PS_MEDIUM_PAGE_SHIFT);
        const struct ps_slot *granule = ps_page_map_slot(address);
        if (!ps_medium_has_marks(granule)) {
            CHECK(page >= PS_MEDIUM_GRANULE_PAGES && !region_is_free(region, page));
            sum->lent_pages++;
            continue;
        }
        uint8_t mark = ps_load_relaxed(ps_medium_mark(granule, address));
        CHECK_EQ(granule->run.back, page / PS_MEDIUM_GRANULE_PAGES);
        if (mark != 0) {
            CHECK_CMP(page, >=, block_end);
            block_end = page + (mark & (PS_MEDIUM_WAITS - 1u));
            CHECK_CMP(block_end, <=, PS_PAGE_BITS);
        }
        CHECK(page >= block_end || !region_is_free(region, page));
        sum->marked_pages += page < block_end;
        sum->lost_pages += page >= block_end && !region_is_free(region, page);
    }
}

static void region_add(struct ps_slot *slot, void *context) {
    const struct ps_medium_region *region = (const struct ps_medium_region *)slot;
    struct region_sum *sum = context;
    size_t free = 0;
    size_t dirty = 0;
    if (slot->run.kind != PS_RUN_MEDIUM) {
        return;
    }
    for (size_t i = 0; i < PS_PAGE_BIT_WORDS; i++) {
        free += (size_t)__builtin_popcountll(region->free[i]);
        dirty += (size_t)__builtin_popcountll(region->free[i] & region->dirty[i]);
    }
    CHECK_EQ(region->free_pages, free);
    CHECK_EQ(region->dirty_free, dirty);
    CHECK_EQ(region->longest, ps_pages_longest(region->free));
    sum->counts.region_count++;
    sum->counts.dirty_pages += dirty;
    sum->counts.refused_pages += region->is_refused ? dirty : 0;
    sum->counts.clean_pages += free - dirty;
    region_add_marks(slot, sum);
}

/* Checks all regions. Those that are on their way from the page cache or back, at most
 * `busy_regions`, are described but not counted. */
static struct region_sum check_regions(uint64_t busy_regions) {
    struct ps_medium_counts counts;
    struct region_sum sum = {0};
    ps_page_cache_walk(region_add, &sum);
    ps_medium_count(&counts);
    CHECK_CMP(counts.region_count + busy_regions, >=, sum.counts.region_count);
    if (counts.region_count == sum.counts.region_count) {
        CHECK_EQ(counts.dirty_pages, sum.counts.dirty_pages);
        CHECK_EQ(counts.refused_pages, sum.counts.refused_pages);
        CHECK_EQ(counts.clean_pages, sum.counts.clean_pages);
    }
    return sum;
}

#endif
