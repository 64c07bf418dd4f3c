/* SPDX-License-Identifier: MIT */
/*
 * The runs of the page cache against its counts. Included by tests that fork at each instruction,
 * whose children must find it whole.
 */
#ifndef PS_TESTS_UNIT_PAGE_CACHE_CHECK_H
#define PS_TESTS_UNIT_PAGE_CACHE_CHECK_H

#include "pools/engine/page/page_cache.h"
#include "tests/unit/unit.h"

struct sum {
    uint64_t granules;
    uint64_t dirty_granules;
    uint64_t clean_granules;
    uint64_t busy_granules;
};

static void add_run(struct ps_slot *slot, void *context) {
    struct sum *sum = context;
    const struct ps_run *run = &slot->run;
    sum->granules += run->granules;
    if (run->kind == PS_RUN_FREE) {
        *(run->is_dirty ? &sum->dirty_granules : &sum->clean_granules) += run->granules;
    } else if (run->kind == PS_RUN_BUSY) {
        sum->busy_granules += run->granules;
    }
}

static struct sum check_page_cache_sums(void) {
    struct ps_page_counts counts;
    struct sum sum = {0};
    ps_page_cache_count(&counts);
    ps_page_cache_walk(add_run, &sum);
    CHECK_EQ(sum.granules + counts.closed_granules, counts.arena_granules);
    CHECK_EQ(sum.dirty_granules, counts.dirty_granules);
    CHECK_EQ(sum.clean_granules + counts.closed_granules, counts.clean_granules);
    return sum;
}

#endif
