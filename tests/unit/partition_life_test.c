// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Partitions of the heap: limits, the ends of a partition, misuse, exhausted memory.
 */
#include "pools/engine/heap/partition_path.h"
#include "tests/unit/announced.h"
#include "tests/unit/engine.h"

FRESH_TEST(a_limit_refuses_what_is_beyond_it) {
    struct ps_partition *part = ps_partition_create(NULL, 100 * KIB);
    void *first = ps_partition_alloc(part, 60 * KIB, 1, false);
    REQUIRE(first != NULL);
    errno = 0;
    CHECK(ps_partition_alloc(part, 50 * KIB, 1, false) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK(ps_partition_alloc(part, SIZE_MAX, 1, false) == NULL);
    CHECK(ps_partition_alloc(part, SIZE_MAX / 2, (size_t)1 << 40, false) == NULL);
    struct ps_partition_use use;
    ps_partition_read(part, &use);
    CHECK_EQ(use.live_count, 1);
    CHECK_EQ(use.live_bytes, 64 * KIB);
    CHECK_EQ(use.refused_count, 3);
    CHECK(use.peak_bytes <= use.limit_bytes);
    WHEN("a block would grow beyond it");
    CHECK(ps_block_resize(first, 200 * KIB) == NULL);
    CHECK_PTR_EQ(ps_partition_of(first), part);
    ps_heap_free(first);
    THEN("what fits is served");
    for (int i = 0; i < 10; i++) {
        void *block = ps_partition_alloc(part, 90 * KIB, 1, false);
        CHECK(block != NULL);
        block = ps_block_resize(block, 70 * KIB);
        block = ps_block_resize(block, 95 * KIB);
        CHECK(block != NULL);
        ps_heap_free(block);
    }
    ps_partition_read(part, &use);
    CHECK_EQ(use.live_bytes, 0);
}

FRESH_TEST(a_destroyed_partition_leaves_nothing) {
    REQUIRE(ps_partition_create("other", 0) != NULL);
    struct ps_census before = engine_census();
    for (int round = 0; round < 20; round++) {
        struct ps_partition *part = ps_partition_create("round", 0);
        for (size_t i = 1; i < 400; i++) {
            memset(ps_partition_alloc(part, i * 97, 1, false), 1, i * 97);
        }
        CHECK(ps_partition_alloc(part, 6 * MIB, 1, true) != NULL);
        CHECK(ps_partition_destroy(part));
        CHECK(!ps_partition_destroy(part));
    }
    ps_maintenance_trim(0);
    struct ps_census after = engine_census();
    check_census(&after);
    CHECK_EQ(after.small_live_bytes, before.small_live_bytes);
    CHECK_EQ(after.run_live_bytes, before.run_live_bytes);
    CHECK_EQ(after.map_live_bytes, before.map_live_bytes);
    CHECK_EQ(after.cache_dirty_bytes, 0);
    THEN("the next rounds need no more addresses");
    CHECK(after.arena_bytes <= 34 * MIB);
}

FRESH_TEST(a_reset_partition_begins_again) {
    struct ps_partition *part = ps_partition_create("reset", 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 1000; i++) {
            CHECK(ps_partition_alloc(part, i, 1, false) != NULL);
        }
        CHECK(ps_partition_reset(part));
        struct ps_partition_use use;
        ps_partition_read(part, &use);
        CHECK_EQ(use.live_count + use.live_bytes + use.mapped_bytes, 0);
    }
}

FRESH_TEST(a_partition_that_is_left_ends_with_its_last_block) {
    struct ps_partition *part = ps_partition_create("left", 0);
    void *small = ps_partition_alloc(part, 100, 1, false);
    void *large = ps_partition_alloc(part, 100 * KIB, 1, false);
    void *mapped = ps_partition_alloc(part, 5 * MIB, 1, false);
    CHECK(ps_partition_leave(part));
    CHECK(ps_partition_alloc(part, 1, 1, false) == NULL);
    CHECK(!ps_partition_destroy(part));
    ps_heap_free(small);
    ps_heap_free(mapped);
    CHECK_PTR_EQ(ps_partition_of(large), part);
    ps_heap_free(large);
    CHECK(ps_partition_is(part, PS_PARTITION_NONE));
    WHEN("it has no block");
    part = ps_partition_create("empty", 0);
    CHECK(ps_partition_leave(part));
    CHECK(ps_partition_is(part, PS_PARTITION_NONE));
}

FRESH_TEST(misuse_of_blocks_of_partitions_is_reported) {
    struct ps_partition *part = ps_partition_create("misused", 0);
    char *kept = ps_partition_alloc(part, 100, 1, false);
    char *small = ps_partition_alloc(part, 100, 1, false);
    char *long_slab = ps_partition_alloc(part, 20 * KIB, 1, false);
    char *large = ps_partition_alloc(part, 100 * KIB, 1, false);
    CHECK_ABORTS(ps_heap_free(small + 8), "poolshim: free of interior pointer 0x");
    CHECK_ABORTS(ps_heap_free(long_slab + 64 * KIB), "poolshim: free of interior pointer 0x");
    CHECK_ABORTS(ps_heap_free(large + 4096), "poolshim: free of interior pointer 0x");
    ps_heap_free(small);
    ps_heap_free(large);
    CHECK_ABORTS(ps_heap_free(small), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_heap_free(large), "poolshim: free of foreign pointer 0x");
    CHECK_ABORTS(ps_block_resize(small, 10), "poolshim: realloc of free block 0x");
    ps_partition_destroy(part);
    CHECK_ABORTS(ps_heap_free(kept), "poolshim: ");
    CHECK_ABORTS(ps_heap_free(long_slab), "poolshim: ");
}

FRESH_TEST(exhaustion_changes_nothing) {
    struct ps_partition *part = ps_partition_create("exhausted", 0);
    void *block = ps_partition_alloc(part, 100, 1, false);
    struct ps_partition_use before;
    ps_partition_read(part, &before);
    fake_os_fail_from(1);
    CHECK(ps_partition_alloc(part, 20 * MIB, 1, false) == NULL);
    CHECK_EQ(errno, ENOMEM);
    void *other = ps_partition_alloc(part, 100, 1, false);
    CHECK(other != NULL);
    ps_heap_free(other);
    fake_os_fail_from(0);
    ps_heap_free(block);
    struct ps_partition_use after;
    ps_partition_read(part, &after);
    CHECK_EQ(after.live_bytes, 0);
    CHECK_EQ(after.large_count, 0);
}

UNIT_MAIN
