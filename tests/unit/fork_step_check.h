/* SPDX-License-Identifier: MIT */
/*
 * Invariants in the child of a fork at any instruction of the engine (fork_step.h), and
 * operations that several tests share.
 */
#ifndef PS_TESTS_FORK_STEP_CHECK_H
#define PS_TESTS_FORK_STEP_CHECK_H

#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/page_cache_check.h"
#include "tests/unit/region_check.h"

#include "pools/engine/heap/start.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"

#define LOST_PAGES_MAX (PS_PAGE_BITS + 32) /* a region, and the overflow of a full cache */

static uint64_t busy_granules_max; /* that a thread may use at once */

static void check_page_cache(void) {
    CHECK_CMP(check_page_cache_sums().busy_granules, <=, busy_granules_max);
    CHECK_CMP(check_regions(1).lost_pages, <=, LOST_PAGES_MAX);
}

#define BLOCKS 60

static struct live_block before[BLOCKS]; /* allocated before the fork by the thread that steps */

__attribute__((unused)) static void use_everything(void) {
    static struct live_block blocks[BLOCKS];
    uint64_t state = 88172645463325252u;
    check_page_cache();
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = engine_random_size(&state);
        bytes = i % 6 == 0 ? 70000 + bytes % 200000 : bytes;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        if (before[i].address != NULL) {
            live_end(&before[i]);
        }
    }
    check_page_cache();
    live_end_all(blocks, BLOCKS);
    ps_maintenance_trim(0);
    check_page_cache();
    struct ps_census census;
    ps_census_take(&census);
    CHECK_EQ(census.cache_dirty_bytes, 0); /* trim found all that was free */
}

__attribute__((unused)) static void make_dirty_of(size_t bytes) {
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = ps_heap_alloc(bytes);
    }
    for (size_t i = 0; i < 6; i += 2) {
        ps_heap_free(blocks[i]); /* three that are not neighbours */
    }
}

__attribute__((unused)) static void trim(void) { ps_maintenance_trim(0); }

#endif
