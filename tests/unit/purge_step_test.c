// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* What one call purges and what it leaves to the next, and memory that cannot be purged. */
#include "tests/unit/purge_runs.h"

#include <sys/syscall.h>
#include <unistd.h>

/* The sanitizers' mlock and munlock do nothing. */
static long lock_page(long call, void *page) { return syscall(call, page, (size_t)1); }

FRESH_TEST(one_locked_page_keeps_its_granule_and_no_more) {
    start(DELAY_MS);
    take(RUN_LIMIT);
    char *page = runs[RUN_LIMIT / 2]->base + PS_GRANULE_BYTES;
    if (lock_page(SYS_mlock, page) != 0) {
        UNIT_SKIP("no page may be locked here");
    }
    give(RUN_LIMIT);
    for (int quarter = 0; quarter < 6; quarter++) {
        tick_after(QUARTER_MS);
    }
    CHECK_EQ(dirty_granules(), 1);
    uint64_t calls = fake_os_calls(FAKE_OS_PURGE);
    for (int quarter = 0; quarter < 40; quarter++) {
        tick_after(QUARTER_MS);
    }
    CHECK_CMP(fake_os_calls(FAKE_OS_PURGE) - calls, <=, 40);
    CHECK(!ps_purge_all(0));
    CHECK_EQ(dirty_granules(), 1);
    THEN("that granule is the first to serve again");
    struct ps_run *run = ps_page_cache_take(1, 1);
    REQUIRE(run != NULL);
    CHECK_PTR_EQ(run->base, page);
    CHECK(run->is_dirty);
    ps_page_cache_give(run);
    for (int quarter = 0; quarter < 8; quarter++) {
        tick_after(QUARTER_MS);
    }
    CHECK_EQ(dirty_granules(), 1);
    WHEN("it is unlocked");
    REQUIRE(lock_page(SYS_munlock, page) == 0);
    for (int quarter = 0; quarter < 8; quarter++) {
        tick_after(QUARTER_MS);
    }
    THEN("it goes, too");
    CHECK_EQ(dirty_granules(), 0);
}

FRESH_TEST(memory_that_was_locked_goes_back_soon_after_it_is_unlocked) {
    start(DELAY_MS);
    take(RUN_LIMIT);
    GIVEN("many granules that were refused");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    give(RUN_LIMIT);
    CHECK(!ps_purge_all(0));
    uint64_t refused = fake_os_calls(FAKE_OS_PURGE);
    for (int quarter = 0; quarter < 40; quarter++) {
        tick_after(QUARTER_MS);
    }
    CHECK_CMP(fake_os_calls(FAKE_OS_PURGE) - refused, <=, 40 * 100);
    WHEN("the system can again");
    fake_os_refuse(0);
    for (int quarter = 0; quarter < 16; quarter++) {
        tick_after(QUARTER_MS);
    }
    CHECK_EQ(dirty_granules(), 0);
}

#define LONG_GRANULES 512
#define LONG_RUNS 16
#define STEP_GRANULES 160 /* 10 MiB */
#define GRANULE_US 4

FRESH_TEST(one_call_purges_a_bounded_part_and_many_calls_all) {
    struct ps_run *taken[LONG_RUNS];
    start(DELAY_MS);
    for (size_t i = 0; i < LONG_RUNS; i++) {
        taken[i] = ps_page_cache_take(LONG_GRANULES, 1);
        REQUIRE(taken[i] != NULL);
    }
    for (size_t i = 0; i < LONG_RUNS; i++) {
        ps_page_cache_give(taken[i]);
    }
    uint64_t freed_ms = ps_os_now_ms();
    while (dirty_granules() != 0 && ps_os_now_ms() < freed_ms + 10 * DELAY_MS) {
        fake_os_advance_ms(4);
        for (int call = 0; call < 10; call++) {
            uint64_t before = dirty_granules();
            ps_purge_tick(ps_os_now_ms());
            CHECK_CMP(before - dirty_granules(), <=, STEP_GRANULES);
        }
    }
    CHECK_EQ(dirty_granules(), 0);
    THEN("together they have taken about an eighth of the time");
    uint64_t work_ms = LONG_RUNS * LONG_GRANULES * GRANULE_US / 1000;
    CHECK_CMP(ps_os_now_ms() - freed_ms, <=, DELAY_MS + QUARTER_MS + 8 * work_ms + 20);
    CHECK_CMP(ps_os_now_ms() - freed_ms, >=, DELAY_MS + 7 * (work_ms - 16)); /* saved up before */
}

FRESH_TEST(one_call_makes_a_bounded_number_of_calls_in_locked_memory) {
    start(DELAY_MS);
    struct ps_run *run = ps_page_cache_take(LONG_RUNS * LONG_GRANULES, 1);
    REQUIRE(run != NULL);
    ps_page_cache_give(run);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    for (int step = 0; step < 100; step++) {
        uint64_t before = fake_os_calls(FAKE_OS_PURGE);
        fake_os_advance_ms(DELAY_MS / 10);
        ps_purge_tick(ps_os_now_ms());
        CHECK_CMP(fake_os_calls(FAKE_OS_PURGE) - before, <=, 510);
    }
    CHECK_CMP(fake_os_calls(FAKE_OS_PURGE), >, 510);
}

FRESH_TEST(runs_used_while_due_stay) {
    start(DELAY_MS);
    for (size_t i = 0; i < RUN_LIMIT; i++) {
        runs[gap_blocks++] = ps_page_cache_take(LONG_GRANULES, 1);
    }
    give(RUN_LIMIT);
    for (int quarter = 0; quarter < 4; quarter++) {
        tick_after(QUARTER_MS);
    }
    fake_os_advance_ms(1);
    ps_purge_tick(ps_os_now_ms());
    CHECK_CMP(dirty_granules(), >, RUN_LIMIT * LONG_GRANULES / 2);
    WHEN("most of it is taken, and given back");
    size_t count = RUN_LIMIT - 8;
    for (size_t i = 0; i < count; i++) {
        runs[gap_blocks++] = ps_page_cache_take(LONG_GRANULES, 1);
    }
    give(count);
    for (int step = 0; step < 2000 && ps_os_now_ms() % QUARTER_MS != QUARTER_MS - 1; step++) {
        fake_os_advance_ms(1);
        ps_purge_tick(ps_os_now_ms());
    }
    CHECK_CMP(dirty_granules(), >=, count * LONG_GRANULES);
}

UNIT_MAIN
