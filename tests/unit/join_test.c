// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Dirty runs that are too short for a request, with clean neighbours. */
#include "tests/unit/purge_runs.h"
#include "tests/unit/run_row.h"

static uint64_t clean_granules(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.clean_granules;
}

static void start_row(const char *kinds) {
    start(DELAY_MS);
    lay_row(take_plain, kinds);
}

/* The run begins there, and has all that is dirty. */
static struct ps_run *take_lengthened(struct ps_run *(*take_one)(size_t granules), size_t granules,
                                      const char *base) {
    struct ps_run *run = take_one(granules);
    REQUIRE(run != NULL);
    CHECK_PTR_EQ(run->base, base);
    CHECK_EQ(dirty_granules(), 0);
    return run;
}

static void write_and_give(struct ps_run *run) {
    memset(run->base, 1, run->granules * PS_GRANULE_BYTES);
    ps_page_cache_give(run);
}

FRESH_TEST(a_dirty_run_is_lengthened_by_the_clean_one_behind_it) {
    start_row("udcuu");
    uint64_t clean = clean_granules();
    struct ps_run *run = take_lengthened(take_plain, GRANULES + 3, row_bases[1]);
    CHECK(run->is_dirty);
    CHECK_EQ(clean_granules(), clean - 3);
    write_and_give(run);
    CHECK_EQ(dirty_granules(), GRANULES + 3);
}

FRESH_TEST(a_dirty_run_is_lengthened_by_the_end_of_the_clean_one_before_it) {
    start_row("cduuu");
    char *base = row_bases[0] + (GRANULES - 3) * PS_GRANULE_BYTES;
    struct ps_run *run = take_lengthened(take_plain, GRANULES + 3, base);
    CHECK_PTR_EQ(run, &ps_page_map_slot(run->base)->run);
    CHECK(run->is_dirty);
    struct ps_run *rest = ps_page_cache_take_clean(GRANULES - 3);
    REQUIRE(rest != NULL);
    CHECK_PTR_EQ(rest->base, row_bases[0]);
}

FRESH_TEST(a_dirty_run_is_lengthened_on_both_sides) {
    start_row("ucdcu");
    struct ps_run *run = take_lengthened(take_plain, 3 * GRANULES, row_bases[1]);
    ps_page_cache_give(row[0]);
    write_and_give(run);
    CHECK_EQ(dirty_granules(), 4 * GRANULES);
}

FRESH_TEST(a_run_that_suffices_is_taken_before_one_is_lengthened) {
    start_row("cdudu");
    struct ps_run *run = take_plain(GRANULES);
    CHECK(run->base == row_bases[3] || run->base == row_bases[1]);
    CHECK_EQ(dirty_granules(), GRANULES);
}

FRESH_TEST(neighbours_that_do_not_suffice_stay) {
    start_row("cduuu");
    struct ps_run *run = take_plain(2 * GRANULES + 1);
    CHECK(run->base > row_bases[4] || run->base < row_bases[0]);
    CHECK_EQ(dirty_granules(), GRANULES);
    CHECK(!run->is_dirty);
}

/* After a plain arena a huge one may lie, whose clean run is of another kind. */
FRESH_TEST(dense_runs_are_lengthened_by_dense_ones) {
    start(DELAY_MS);
    REQUIRE(ps_page_cache_take_dense(8 * GRANULES) != NULL); /* the first arena, which is small */
    lay_row(ps_page_cache_take_dense, "udcuu");
    struct ps_run *run = take_lengthened(ps_page_cache_take_dense, 2 * GRANULES, row_bases[1]);
    CHECK(run->is_huge);
}

UNIT_MAIN
