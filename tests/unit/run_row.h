/* SPDX-License-Identifier: MIT */
/*
 * Runs side by side that are in use, clean or dirty. Included by tests of runs that are lengthened
 * by their neighbours.
 */
#ifndef PS_TESTS_UNIT_RUN_ROW_H
#define PS_TESTS_UNIT_RUN_ROW_H

#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "tests/unit/unit.h"

#define GRANULES 4 /* of each run */
#define RUNS_MAX 5

static struct ps_run *row[RUNS_MAX];
static char *row_bases[RUNS_MAX]; /* also of returned runs */

static struct ps_run *take_plain(size_t granules) {
    struct ps_run *run = ps_page_cache_take(granules, 1);
    REQUIRE(run != NULL);
    return run;
}

static void give_kind(const char *kinds, char kind) {
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        if (kinds[i] == kind) {
            ps_page_cache_give(row[i]);
        }
    }
}

/* A letter for each run: 'u'sed, 'c'lean, 'd'irty. */
static void lay_row(struct ps_run *(*take_one)(size_t granules), const char *kinds) {
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        row[i] = take_one(GRANULES);
        REQUIRE(row[i] != NULL);
        row_bases[i] = row[i]->base;
        REQUIRE(i == 0 || row_bases[i] == row_bases[i - 1] + GRANULES * PS_GRANULE_BYTES);
    }
    struct ps_page_counts counts;
    give_kind(kinds, 'c');
    CHECK(ps_purge_all(0));
    ps_page_cache_count(&counts);
    CHECK_EQ(counts.dirty_granules, 0);
    give_kind(kinds, 'd');
}

#endif
