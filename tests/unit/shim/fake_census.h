/* SPDX-License-Identifier: MIT */
/*
 * A census made up by the test, in place of the engine's; linked before the core, so it wins.
 */
#ifndef PS_TESTS_UNIT_SHIM_FAKE_CENSUS_H
#define PS_TESTS_UNIT_SHIM_FAKE_CENSUS_H

#include "pools/engine/record/census.h"

static struct ps_census fake_census;

void ps_census_take(struct ps_census *out) { *out = fake_census; }

void ps_census_peek(struct ps_census *out) { *out = fake_census; }

/*
 * Two classes in use and one without spans; 3 page runs, 2 mappings. Every figure is different, so
 * that none can pass for another.
 */
static inline void fake_census_fill(void) {
    fake_census = (struct ps_census){
        .arena_bytes = 33554432,
        .mapped_bytes = 20000000,
        .malloc_count = 40000,
        .free_count = 38985,
        .has_calls = true,
        .rounding_bytes = 1234,
        .small_live_bytes = 16 * 1000 + 48 * 10,
        .small_slab_bytes = 65536 + 2 * 65536,
        .run_live_bytes = 300000,
        .map_live_bytes = 9000000,
        .cache_dirty_bytes = 400000,
        .cache_clean_bytes = 500000,
        .map_cached_bytes = 600000,
        .metadata_bytes = 70000,
        .purged_bytes = 800000,
        .limit_bytes = 10000000,
        .limit_purged_bytes = 300000,
        .limit_near_count = 3,
        .limit_source = "memory.max",
        .arena_count = 1,
        .run_live_count = 3,
        .map_live_count = 2,
        .map_cached_count = 4,
        .purge_count = 5,
        .class_count = 3,
        .classes =
            {
                {.block_bytes = 16, .live_blocks = 1000, .slabs = 1, .slab_bytes = 65536},
                {.block_bytes = 48, .live_blocks = 10, .slabs = 2, .slab_bytes = 2 * 65536},
                {.block_bytes = 64},
            },
    };
}

#endif
