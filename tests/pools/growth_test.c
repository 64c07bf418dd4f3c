/* SPDX-License-Identifier: MIT */
/*
 * Options that change while pools live, the rest of a chunk, the order of marks, and blocks that
 * begin a chunk.
 */
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/stack.h>

#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

#include <errno.h>

#define KIB ((size_t)1 << 10)

/* ---- pool ---- */

static size_t fill(struct ps_pool *pool, void **objects, size_t most) {
    size_t count = 0;
    while (count < most && (objects[count] = ps_pool_alloc(pool)) != NULL) {
        count++;
    }
    return count;
}

static void check_limits(size_t size, bool is_ordered) {
    void *objects[1000];
    struct ps_pool_options options = {.max_items = 100, .is_ordered = is_ordered};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, size, 0, &options));
    CHECK_EQ(fill(&pool, objects, 1000), 100);
    CHECK(ps_pool_set_max_items(&pool, 250));
    CHECK_EQ(fill(&pool, objects + 100, 900), 150);
    errno = 0;
    CHECK(!ps_pool_set_max_items(&pool, 249) && errno == EINVAL);
    CHECK(ps_pool_alloc(&pool) == NULL);
    CHECK(ps_pool_set_max_items(&pool, 0)); /* no limit */
    CHECK_EQ(fill(&pool, objects + 250, 750), 750);
    for (size_t i = 0; i < 1000; i++) {
        ps_pool_free(&pool, objects[i]);
    }
    ps_pool_trim_to(&pool, 0);
    CHECK(ps_pool_set_max_items(&pool, 30));
    CHECK_EQ(fill(&pool, objects, 1000), 30);
    struct ps_pool_stats stats;
    ps_pool_stats(&pool, &stats);
    CHECK_EQ(stats.max_items, 30);
    CHECK_EQ(stats.used_count, 30);
    CHECK_EQ(stats.free_count, 0);
    ps_pool_reset(&pool);
    CHECK_EQ(fill(&pool, objects, 1000), 30);
    ps_pool_destroy(&pool);
}

TEST(the_limit_of_objects_changes_in_each_kind_of_pool) {
    check_limits(24, false);
    check_limits(24, true);
    check_limits(1, false);
    check_limits(3, true);
}

TEST(chunks_of_a_pool_follow_the_new_growth) {
    NEEDS_CHUNKS();
    struct ps_pool_stats stats;
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 64, 0, NULL));
    ps_pool_set_growth(&pool, 32 * KIB, 32 * KIB);
    CHECK(ps_pool_alloc(&pool) != NULL);
    ps_pool_stats(&pool, &stats);
    CHECK_EQ(stats.total_bytes, 32 * KIB);
    CHECK_EQ(stats.next_bytes, 32 * KIB);
    CHECK_EQ(stats.max_bytes, 32 * KIB);
    ps_pool_set_growth(&pool, 0, 16 * KIB); /* the next one is no longer than the cap */
    ps_pool_stats(&pool, &stats);
    CHECK_EQ(stats.next_bytes, 16 * KIB);
    ps_pool_set_growth(&pool, 5000, 0); /* whole pages */
    ps_pool_stats(&pool, &stats);
    CHECK_EQ(stats.next_bytes, 8 * KIB);
    CHECK_EQ(stats.max_bytes, 16 * KIB);
    ps_pool_destroy(&pool);
}

/* ---- region ---- */

TEST(a_region_says_where_chunks_begin_and_what_is_left) {
    NEEDS_CHUNKS();
    bool starts = true;
    struct ps_region *region = ps_region_create(NULL);
    REQUIRE(ps_region_alloc_reporting(region, 100, 16, &starts) != NULL);
    CHECK(!starts); /* the first chunk exists already */
    size_t left = ps_region_capacity_left(region);
    CHECK_CMP(left, >, 2 * KIB);
    char *last = ps_region_alloc_reporting(region, left, 1, &starts);
    CHECK(!starts && last != NULL);
    CHECK_EQ(ps_region_capacity_left(region), 0);
    char *next = ps_region_alloc_reporting(region, 100, 16, &starts);
    CHECK(starts);
    CHECK(ps_region_alloc_reporting(region, 100, 16, &starts) != NULL && !starts);
    CHECK(ps_region_alloc_reporting(region, 100 * KIB, 16, &starts) != NULL && starts);
    ps_region_reset(region); /* retains the second chunk, which begins again */
    CHECK(ps_region_alloc_reporting(region, 100, 16, &starts) != NULL && !starts);
    size_t count = 0;
    while (!starts) {
        next = ps_region_alloc_reporting(region, 100, 16, &starts);
        count++;
    }
    CHECK(next != NULL);
    CHECK_CMP(count, >, 20);
    starts = true;
    CHECK(ps_region_alloc_reporting(region, SIZE_MAX, 16, &starts) == NULL && errno == ENOMEM);
    CHECK(!starts);
    CHECK(ps_region_alloc_reporting(region, 1, 3, &starts) == NULL && errno == EINVAL);
    ps_region_destroy(region);
}

TEST(chunks_of_a_region_follow_the_new_growth_and_retention) {
    NEEDS_CHUNKS();
    struct ps_region_stats stats;
    struct ps_region *region = ps_region_create(NULL);
    ps_region_set_growth(region, 64 * KIB, 64 * KIB);
    for (size_t i = 0; i < 40; i++) {
        CHECK(ps_region_alloc(region, 8 * KIB) != NULL);
    }
    ps_region_stats(region, &stats);
    CHECK_EQ(stats.next_chunk_bytes, 64 * KIB);
    CHECK_EQ((stats.reserved_bytes - 4 * KIB) % (64 * KIB), 0);
    ps_region_set_growth(region, 1, 0); /* as small as a region can be */
    ps_region_stats(region, &stats);
    CHECK_CMP(stats.next_chunk_bytes, >=, KIB);
    ps_region_reset(region);
    ps_region_stats(region, &stats);
    CHECK_CMP(stats.waiting_bytes, >, 128 * KIB);
    ps_region_set_retain(region, 64 * KIB);
    ps_region_stats(region, &stats);
    CHECK_CMP(stats.waiting_bytes, <=, 64 * KIB);
    ps_region_destroy(region);
}

/* ---- stack ---- */

TEST(marks_are_ordered_by_time) {
    struct ps_stack_mark marks[60];
    struct ps_stack *stack = ps_stack_create(NULL);
    for (size_t i = 0; i < 60; i++) {
        marks[i] = ps_stack_mark(stack);
        if (i % 10 == 0) { /* also between frames */
            CHECK(ps_stack_push(stack) != NULL);
        }
        CHECK(ps_stack_alloc(stack, i % 7 == 0 ? 100 * KIB : 50) != NULL);
    }
    for (size_t i = 0; i < 60; i++) {
        for (size_t j = 0; j < 60; j++) {
            CHECK_EQ(ps_stack_mark_compare(stack, marks[i], marks[j]), (i > j) - (i < j));
        }
    }
    CHECK(ps_stack_alloc(stack, 10) != NULL); /* and the stack works as before */
    ps_stack_destroy(stack);
}

TEST(marks_without_blocks_between_them_are_equal) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_mark a = ps_stack_mark(stack);
    struct ps_stack_mark b = ps_stack_mark(stack);
    CHECK_EQ(ps_stack_mark_compare(stack, a, b), 0);
    ps_stack_destroy(stack);
    CHECK_EQ(ps_stack_capacity_left(ps_t()), 0);
    ps_stack_set_growth(ps_t(), 4096, 4096); /* a stack that is not there yet */
    struct ps_stack_mark none = ps_stack_mark(ps_t());
    CHECK_EQ(ps_stack_mark_compare(ps_t(), none, none), 0);
}

TEST(a_stack_says_what_is_left_and_follows_the_new_growth) {
    NEEDS_CHUNKS();
    struct ps_stack_stats before;
    struct ps_stack_stats after;
    struct ps_stack *stack = ps_stack_create(NULL);
    size_t left = ps_stack_capacity_left(stack);
    CHECK_CMP(left, >, 60 * KIB);
    ps_stack_stats(stack, &before);
    CHECK(ps_stack_alloc_aligned(stack, left, 8) != NULL);
    ps_stack_stats(stack, &after);
    CHECK_EQ(after.held_bytes, before.held_bytes);
    CHECK_EQ(ps_stack_capacity_left(stack), 0);
    ps_stack_set_growth(stack, 256 * KIB, 256 * KIB);
    CHECK(ps_stack_alloc(stack, 100) != NULL);
    ps_stack_stats(stack, &after);
    CHECK_CMP(after.held_bytes - before.held_bytes, >=, 256 * KIB);
    ps_stack_set_retain(stack, SIZE_MAX, 1);
    ps_stack_reset(stack);
    ps_stack_pop(stack, ps_stack_push(stack));
    ps_stack_stats(stack, &before);
    CHECK_EQ(before.held_bytes, after.held_bytes);
    ps_stack_destroy(stack);
}

UNIT_MAIN
