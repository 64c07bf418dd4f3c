// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread that takes a dirty run with its clean neighbours:
 * the child finds each run in the cache, once.
 */
#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/page_cache_check.h"
#include "tests/unit/run_row.h"

#include "pools/engine/heap/start.h"
#include "pools/engine/page/page_cache.h"

static void leave_short_runs(void) { lay_row(take_plain, "cdcu"); }

static void take_and_return(void) { ps_page_cache_give(ps_page_cache_take(3 * GRANULES - 1, 1)); }

static void use_runs(void) {
    CHECK_CMP(check_page_cache_sums().busy_granules, <=, 5 * GRANULES);
    ps_page_cache_give(ps_page_cache_take(3 * GRANULES, 1));
    ps_maintenance_trim(0);
    CHECK_EQ(check_page_cache_sums().dirty_granules, 0);
}

FRESH_TEST(a_dirty_run_is_lengthened) {
    ps_engine_start();
    fork_at_each_step(leave_short_runs, take_and_return, use_runs, 1);
}

UNIT_MAIN
