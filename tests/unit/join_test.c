// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Dirty runs that are too short for a request, with clean neighbours. */
#include "tests/unit/purge_runs.h"

#define GRANULES 4
#define RUNS 5

/* Five runs of GRANULES, one behind the other; the last stays in use. */
static struct ps_run *row[RUNS];

static void take_row(struct ps_run *(*take_one)(size_t granules)) {
    for (size_t i = 0; i < RUNS; i++) {
        row[i] = take_one(GRANULES);
        REQUIRE(row[i] != NULL);
        REQUIRE(i == 0 || row[i]->base == row[i - 1]->base + GRANULES * PS_GRANULE_BYTES);
    }
}

static struct ps_run *take_plain(size_t granules) { return ps_page_cache_take(granules, 1); }

static void purge_runs(size_t first, size_t last) {
    for (size_t i = first; i <= last; i++) {
        ps_page_cache_give(row[i]);
    }
    CHECK(ps_purge_all(0));
    CHECK_EQ(dirty_granules(), 0);
}

static uint64_t clean_granules(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.clean_granules;
}

FRESH_TEST(a_dirty_run_is_lengthened_by_the_clean_one_behind_it) {
    start(DELAY_MS);
    take_row(take_plain);
    char *base = row[1]->base;
    purge_runs(2, 2);
    ps_page_cache_give(row[1]);
    uint64_t clean = clean_granules();
    struct ps_run *run = ps_page_cache_take(GRANULES + 3, 1);
    REQUIRE(run != NULL);
    CHECK_PTR_EQ(run->base, base);
    CHECK(run->is_dirty);
    CHECK_EQ(dirty_granules(), 0);
    CHECK_EQ(clean_granules(), clean - 3);
    memset(run->base, 1, run->granules * PS_GRANULE_BYTES);
    ps_page_cache_give(run);
    CHECK_EQ(dirty_granules(), GRANULES + 3);
}

FRESH_TEST(a_dirty_run_is_lengthened_by_the_end_of_the_clean_one_before_it) {
    start(DELAY_MS);
    take_row(take_plain);
    char *base = row[0]->base;
    purge_runs(0, 0);
    ps_page_cache_give(row[1]);
    struct ps_run *run = ps_page_cache_take(GRANULES + 3, 1);
    REQUIRE(run != NULL);
    CHECK_PTR_EQ(run->base, base + (GRANULES - 3) * PS_GRANULE_BYTES);
    CHECK_PTR_EQ(run, &ps_page_map_slot(run->base)->run);
    CHECK(run->is_dirty);
    CHECK_EQ(dirty_granules(), 0);
    struct ps_run *rest = ps_page_cache_take_clean(GRANULES - 3);
    REQUIRE(rest != NULL);
    CHECK_PTR_EQ(rest->base, base);
}

FRESH_TEST(a_dirty_run_is_lengthened_on_both_sides) {
    start(DELAY_MS);
    take_row(take_plain);
    char *base = row[1]->base;
    purge_runs(1, 1);
    ps_page_cache_give(row[3]);
    CHECK(ps_purge_all(0));
    ps_page_cache_give(row[2]);
    struct ps_run *run = ps_page_cache_take(3 * GRANULES, 1);
    REQUIRE(run != NULL);
    CHECK_PTR_EQ(run->base, base);
    CHECK_EQ(dirty_granules(), 0);
    memset(run->base, 1, run->granules * PS_GRANULE_BYTES);
    ps_page_cache_give(row[0]);
    ps_page_cache_give(run);
    CHECK_EQ(dirty_granules(), 4 * GRANULES);
}

FRESH_TEST(a_run_that_suffices_is_taken_before_one_is_lengthened) {
    start(DELAY_MS);
    take_row(take_plain);
    char *base = row[3]->base;
    purge_runs(0, 0);
    ps_page_cache_give(row[1]);
    ps_page_cache_give(row[3]);
    struct ps_run *run = ps_page_cache_take(GRANULES, 1);
    REQUIRE(run != NULL);
    CHECK(run->base == base || run->base == base - 2 * GRANULES * PS_GRANULE_BYTES);
    CHECK_EQ(dirty_granules(), GRANULES);
}

FRESH_TEST(neighbours_that_do_not_suffice_stay) {
    start(DELAY_MS);
    take_row(take_plain);
    char *base = row[1]->base;
    purge_runs(0, 0);
    ps_page_cache_give(row[1]);
    struct ps_run *run = ps_page_cache_take(2 * GRANULES + 1, 1);
    REQUIRE(run != NULL);
    CHECK(run->base > row[4]->base || run->base < base - GRANULES * PS_GRANULE_BYTES);
    CHECK_EQ(dirty_granules(), GRANULES);
    CHECK(!run->is_dirty);
}

/* Behind a plain arena a huge one may lie, and its clean run is of another kind. */
FRESH_TEST(dense_runs_are_lengthened_by_dense_ones) {
    start(DELAY_MS);
    REQUIRE(ps_page_cache_take_dense(8 * GRANULES) != NULL); /* the first arena, which is small */
    take_row(ps_page_cache_take_dense);
    char *base = row[1]->base;
    purge_runs(2, 2);
    ps_page_cache_give(row[1]);
    struct ps_run *run = ps_page_cache_take_dense(2 * GRANULES);
    REQUIRE(run != NULL);
    CHECK_PTR_EQ(run->base, base);
    CHECK(run->is_huge);
    CHECK_EQ(dirty_granules(), 0);
}

UNIT_MAIN
