/* SPDX-License-Identifier: MIT */
/*
 * Runs of the page cache that are taken and given back, and a clock that tests move. Included by
 * tests of purge.c.
 */
#ifndef PS_TESTS_UNIT_PURGE_RUNS_H
#define PS_TESTS_UNIT_PURGE_RUNS_H

#include "pools/engine/base/bits.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#include <sys/mman.h>

#define DELAY_MS 400
#define QUARTER_MS (DELAY_MS / 4)
#define RUN_GRANULES 8
#define RUN_LIMIT 64

static const struct ps_config config = PS_CONFIG_DEFAULT;
static struct ps_run *runs[RUN_LIMIT];
static size_t gap_blocks;

__attribute__((unused)) static void start(uint32_t delay_ms) {
    ps_page_cache_start(&config);
    ps_retention_set_delay(delay_ms);
    ps_purge_tick(ps_os_now_ms()); /* the first one starts the clock */
}

/* So many calls that whatever is due goes. */
__attribute__((unused)) static void tick_after(uint64_t ms) {
    fake_os_advance_ms(ms);
    for (int call = 0; call < 20; call++) {
        ps_purge_tick(ps_os_now_ms());
    }
}

__attribute__((unused)) static uint64_t dirty_granules(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.dirty_granules;
}

__attribute__((unused)) static uint64_t purged_granules(void) {
    struct ps_purge_counts counts;
    ps_purge_read(&counts);
    CHECK_EQ(counts.bytes, fake_os_purged_bytes());
    return counts.bytes >> PS_GRANULE_SHIFT;
}

__attribute__((unused)) static void take(size_t count) {
    for (size_t i = 0; i < count; i++) {
        runs[gap_blocks] = ps_page_cache_take(RUN_GRANULES, 1);
        REQUIRE(runs[gap_blocks] != NULL);
        memset(runs[gap_blocks]->base, 0xa5, 8);
        gap_blocks++;
    }
}

__attribute__((unused)) static void give(size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_page_cache_give(runs[--gap_blocks]);
    }
}

#endif
