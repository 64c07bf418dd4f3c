// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Orphans return their free pages when they have been idle for the purge delay, a few in each
 * step. */
#include "pools/engine/heap/orphan_purge.h"

#include "pools/engine/page/retention.h"
#include "pools/engine/small/orphans.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

ENGINE_HEAPS

#define BLOCK_BYTES 200
#define PEAK_BLOCKS 64000 /* 196 spans */
#define KEPT_ONE_OF 100
#define STEP_BYTES_MAX (8 * MIB)

static struct live_block blocks[PEAK_BLOCKS];

/* A peak in a thread that ends; one block of a hundred survives. */
static void leave_survivors(void *unused) {
    (void)unused;
    live_start_all(blocks, PEAK_BLOCKS, BLOCK_BYTES);
    for (size_t i = 0; i < PEAK_BLOCKS; i++) {
        if (i % KEPT_ONE_OF != 0) {
            live_end(&blocks[i]);
        }
    }
}

static void leave_orphans(void) {
    static struct worker worker;
    worker_start(&worker);
    worker_do(&worker, leave_survivors, NULL);
    worker_stop(&worker);
    CHECK_CMP(ps_orphans_count(), >, 150);
}

static bool tick(bool is_asked) {
    uint64_t before = fake_os_purged_bytes();
    uint64_t bytes = 0;
    bool is_more = ps_orphan_purge_tick(ps_os_now_ms(), is_asked, &bytes);
    CHECK_EQ(fake_os_purged_bytes() - before, bytes);
    return is_more;
}

/* Steps of the background thread for so long; the bytes that they purged. */
static uint64_t tick_for(uint64_t ms) {
    uint64_t before = fake_os_purged_bytes();
    for (uint64_t passed = 0; passed < ms; passed += 5) {
        uint64_t step = fake_os_purged_bytes();
        (void)tick(false);
        CHECK_CMP(fake_os_purged_bytes() - step, <, STEP_BYTES_MAX);
        fake_os_advance_ms(5);
    }
    return fake_os_purged_bytes() - before;
}

static void end_survivors(void) {
    for (size_t i = 0; i < PEAK_BLOCKS; i += KEPT_ONE_OF) {
        live_end(&blocks[i]);
    }
}

FRESH_TEST(pages_between_survivors_return_after_the_delay) {
    leave_orphans();
    uint64_t delay_ms = ps_retention_usual_delay_ms();
    CHECK_EQ(tick_for(delay_ms * 3 / 4), 0);
    uint64_t held = ps_orphans_count() * PS_GRANULE_BYTES;
    uint64_t purged = tick_for(delay_ms * 2);
    CHECK_CMP(purged, >, held / 2);
    CHECK_EQ(tick_for(delay_ms * 20), 0);
    WHEN("the memory is used again");
    static struct live_block again[PEAK_BLOCKS / 2];
    live_start_all(again, PEAK_BLOCKS / 2, BLOCK_BYTES);
    live_end_all(again, PEAK_BLOCKS / 2);
    end_survivors();
}

FRESH_TEST(a_step_is_bounded_and_says_that_there_is_more) {
    leave_orphans();
    fake_os_advance_ms(1);
    (void)tick_for(ps_retention_usual_delay_ms() * 5 / 4);
    uint64_t calls = fake_os_calls(FAKE_OS_PURGE);
    fake_os_advance_ms(100);
    CHECK(tick(false));
    CHECK_CMP(fake_os_calls(FAKE_OS_PURGE) - calls, <, 300);
    end_survivors();
}

FRESH_TEST(a_trim_purges_at_once) {
    leave_orphans();
    uint64_t held = ps_orphans_count() * PS_GRANULE_BYTES;
    uint64_t before = fake_os_purged_bytes();
    CHECK_CMP(ps_orphan_purge_all(), >, held / 2);
    CHECK_CMP(fake_os_purged_bytes() - before, >, held / 2);
    CHECK_EQ(ps_orphan_purge_all(), 0);
    end_survivors();
}

FRESH_TEST(a_request_purges_step_by_step_without_delay) {
    leave_orphans();
    uint64_t held = ps_orphans_count() * PS_GRANULE_BYTES;
    uint64_t before = fake_os_purged_bytes();
    (void)tick(false);
    CHECK_EQ(fake_os_purged_bytes() - before, 0);
    int steps = 1;
    for (; tick(true) && steps < 1000; steps++) {
    }
    CHECK_CMP(steps, >, 3);
    CHECK_CMP(steps, <, 1000);
    CHECK_CMP(fake_os_purged_bytes() - before, >, held / 2);
    end_survivors();
}

FRESH_TEST(under_pressure_no_delay_is_kept) {
    leave_orphans();
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)PS_PRESSURE_NEAR);
    CHECK_CMP(tick_for(200), >, ps_orphans_count() * PS_GRANULE_BYTES / 2);
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)PS_PRESSURE_NONE);
    end_survivors();
}

UNIT_MAIN
