/* SPDX-License-Identifier: MIT */
/*
 * A pool as the source of other pools: chunks of one object and of several, alignment, limits, and
 * what returns.
 */
#include <poolshim/pool.h>
#include <poolshim/region.h>

#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

#include <errno.h>

#define KIB ((size_t)1 << 10)

static size_t used_of(struct ps_pool *pool) {
    struct ps_pool_stats stats;
    ps_pool_stats(pool, &stats);
    return stats.used_count;
}

TEST(regions_live_in_objects_of_a_pool) {
    NEEDS_CHUNKS();
    struct ps_pool chunks;
    REQUIRE(ps_pool_init(&chunks, 8 * KIB, 16, NULL));
    struct ps_pool_source source;
    ps_pool_source_init(&source, &chunks);
    struct ps_region_options options = {
        .chunks = {.source = &source.source, .first_bytes = 8 * KIB, .max_bytes = 8 * KIB},
        .retain_bytes = 1,
    };
    struct ps_region *regions[10];
    for (size_t i = 0; i < 10; i++) {
        regions[i] = ps_region_create(&options);
        REQUIRE(regions[i] != NULL);
        CHECK(ps_pool_owns(&chunks, regions[i]));
    }
    CHECK_EQ(used_of(&chunks), 10);
    char *long_one = ps_region_alloc(regions[0], 30 * KIB); /* four objects side by side */
    REQUIRE(long_one != NULL);
    memset(long_one, 1, 30 * KIB);
    CHECK_EQ(used_of(&chunks), 14);
    for (size_t i = 0; i < 10; i++) {
        ps_region_destroy(regions[i]);
    }
    CHECK_EQ(used_of(&chunks), 0);
    ps_pool_destroy(&chunks);
}

TEST(a_pool_that_is_full_or_not_aligned_refuses) {
    NEEDS_CHUNKS();
    struct ps_pool_options limited = {.max_items = 2};
    struct ps_pool chunks;
    REQUIRE(ps_pool_init(&chunks, 4 * KIB, 64, &limited));
    struct ps_pool_source source;
    ps_pool_source_init(&source, &chunks);
    errno = 0;
    CHECK(source.source.alloc(&source.source, 100, 128) == NULL && errno == EINVAL);
    void *a = source.source.alloc(&source.source, 4 * KIB, 64);
    void *b = source.source.alloc(&source.source, 1, 1);
    CHECK(a != NULL && b != NULL);
    CHECK(source.source.alloc(&source.source, 1, 1) == NULL && errno == ENOMEM);
    CHECK(source.source.alloc(&source.source, SIZE_MAX, 1) == NULL && errno == ENOMEM);
    errno = EDOM;
    source.source.free(&source.source, a, 4 * KIB);
    source.source.free(&source.source, b, 1);
    CHECK_EQ(errno, EDOM);
    CHECK_EQ(used_of(&chunks), 0);
    struct ps_pool_options inner_options = {
        .chunks = {.source = &source.source, .first_bytes = 4 * KIB, .max_bytes = 4 * KIB}};
    struct ps_pool inner;
    REQUIRE(ps_pool_init(&inner, 24, 0, &inner_options));
    size_t count = 0;
    while (ps_pool_alloc(&inner) != NULL) {
        count++;
    }
    CHECK_EQ(errno, ENOMEM);
    CHECK_CMP(count, >, 2 * 150); /* two chunks */
    CHECK_EQ(used_of(&chunks), 2);
    ps_pool_destroy(&inner);
    CHECK_EQ(used_of(&chunks), 0);
    ps_pool_destroy(&chunks);
}

UNIT_MAIN
