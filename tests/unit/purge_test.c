// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * When memory is released, by a clock that the tests move. The rule under test: purging
 * releases memory that was free and dirty for the whole delay, within a quarter more of it. It
 * never releases memory that was needed at any moment of the delay.
 */
#include "tests/unit/purge_runs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEPS 4000
#define STEP_MS_MAX 60
#define HUGE_GRANULES ((size_t)32)

FRESH_TEST(idle_runs_are_purged_after_the_delay_and_not_before) {
    start(DELAY_MS);
    take(20);
    give(20);
    GIVEN("freed runs without a use");
    uint64_t freed_ms = ps_os_now_ms();
    while (purged_granules() == 0 && ps_os_now_ms() < freed_ms + 4 * DELAY_MS) {
        tick_after(10);
    }
    THEN("all of it goes, between 1 and 1.25 delays later");
    CHECK_EQ(purged_granules(), 20 * RUN_GRANULES);
    CHECK_EQ(dirty_granules(), 0);
    CHECK_CMP(ps_os_now_ms() - freed_ms, >=, DELAY_MS);
    CHECK_CMP(ps_os_now_ms() - freed_ms, <=, DELAY_MS + QUARTER_MS + 10);
}

FRESH_TEST(a_delay_that_was_shortened_holds_at_once) {
    const uint32_t delays_ms[] = {0, DELAY_MS / 10};
    for (size_t i = 0; i < 2; i++) {
        start(1000 * DELAY_MS);
        take(20);
        give(20);
        tick_after(DELAY_MS);
        uint64_t purged = purged_granules();
        GIVEN("another delay");
        ps_retention_set_delay(delays_ms[i]);
        for (int ticks = 0; ticks < 10; ticks++) {
            tick_after(DELAY_MS / 10);
        }
        CHECK_EQ(purged_granules() - purged, 20 * RUN_GRANULES);
    }
}

FRESH_TEST(a_shorter_delay_holds_at_once_and_a_longer_one_from_the_next_quarter) {
    start(3600000);
    take(20);
    give(20);
    tick_after(DELAY_MS);
    CHECK_EQ(purged_granules(), 0);
    ps_retention_set_delay(DELAY_MS);
    for (int call = 0; call < 5; call++) {
        tick_after(QUARTER_MS);
    }
    CHECK_EQ(dirty_granules(), 0);
    ps_retention_set_delay(3600000);
    take(20);
    give(20);
    for (int call = 0; call < 50; call++) {
        tick_after(QUARTER_MS);
    }
    CHECK_EQ(dirty_granules(), 20 * RUN_GRANULES);
    ps_retention_set_delay(0);
    tick_after(1);
    CHECK_EQ(dirty_granules(), 0);
}

FRESH_TEST(memory_that_varies_within_a_delay_stays) {
    start(DELAY_MS);
    take(30);
    for (int swing = 0; swing < 50; swing++) {
        give(20);
        tick_after(DELAY_MS / 2 - 10);
        take(20);
        tick_after(DELAY_MS / 2 - 10);
    }
    CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), 0);
}

FRESH_TEST(of_a_swing_that_has_narrowed_only_the_idle_part_goes) {
    start(DELAY_MS);
    take(30);
    give(30);
    for (int swing = 0; swing < 40; swing++) {
        take(12);
        tick_after(30);
        give(12);
        tick_after(30);
    }
    CHECK_EQ(dirty_granules(), 12 * RUN_GRANULES);
    CHECK_EQ(purged_granules(), 18 * RUN_GRANULES);
}

/* One moment of the random run: dirty granules, plus all granules purged by then. This sum, less
 * all granules purged since, is the memory that was idle from that moment on. */
struct moment {
    uint64_t ms;
    uint64_t level;
};

static struct moment moments[2 * STEPS + 2];
static size_t moment_count;

static void note_moment(void) {
    moments[moment_count++] = (struct moment){ps_os_now_ms(), dirty_granules() + purged_granules()};
}

/* The least level since then, the one in force at that moment included. */
static uint64_t least_level_since(uint64_t ms) {
    uint64_t least = UINT64_MAX;
    for (size_t i = moment_count; i-- > 0;) {
        least = ps_min(least, moments[i].level);
        if (moments[i].ms <= ms) {
            break;
        }
    }
    return least;
}

static void check_tick(uint64_t purged_before) {
    uint64_t now_ms = ps_os_now_ms();
    uint64_t purged = purged_granules();
    if (purged != purged_before) { /* not more than was idle all the time */
        CHECK_CMP(purged, <=, least_level_since(now_ms - DELAY_MS));
    }
    uint64_t long_ago_ms = now_ms - 5 * (QUARTER_MS + STEP_MS_MAX);
    CHECK_CMP(purged, >=, least_level_since(long_ago_ms));
}

static void random_steps(void) {
    for (int step = 0; step < STEPS; step++) {
        size_t room = step / 500 % 2 == 0 ? RUN_LIMIT : RUN_LIMIT / 6; /* busy and quiet times */
        if (gap_blocks > room || unit_random() % 2 == 0) {
            give(gap_blocks > 0 ? 1 + unit_random() % gap_blocks : 0);
        } else {
            take(unit_random() % (room - gap_blocks + 1));
        }
        note_moment();
        uint64_t purged_before = purged_granules();
        tick_after(unit_random() % STEP_MS_MAX);
        check_tick(purged_before);
        if (unit_random() % 200 == 0) {
            ps_purge_all(unit_random() % 64 * PS_GRANULE_BYTES);
        }
        note_moment();
    }
}

FRESH_TEST(random_activity_keeps_the_rule_in_both_directions) {
    start(DELAY_MS);
    note_moment();
    random_steps();
    CHECK_CMP(purged_granules(), >, 0);
}

FRESH_TEST(runs_freed_after_a_trim_start_a_new_delay) {
    start(DELAY_MS);
    take(40);
    give(20);
    for (int i = 0; i < 3; i++) {
        tick_after(QUARTER_MS);
    }
    CHECK(ps_purge_all(0));
    uint64_t trimmed = purged_granules();
    give(20);
    for (int i = 0; i < 3; i++) {
        tick_after(QUARTER_MS);
        CHECK_EQ(purged_granules(), trimmed);
    }
}

FRESH_TEST(without_a_delay_everything_goes_at_the_next_tick) {
    start(0);
    for (size_t count = 1; count < 20; count++) {
        take(count);
        give(count);
        uint64_t dirty = dirty_granules();
        uint64_t purged = purged_granules();
        tick_after(0);
        CHECK_EQ(dirty_granules(), 0);
        CHECK_EQ(purged_granules(), purged + dirty);
    }
}

FRESH_TEST(after_a_long_pause_the_first_tick_gives_all_idle_memory_back) {
    start(DELAY_MS);
    take(20);
    tick_after(QUARTER_MS);
    give(20);
    tick_after(QUARTER_MS); /* the mark of this quarter is 0: it began with all runs out */
    tick_after(100 * DELAY_MS);
    CHECK_EQ(dirty_granules(), 0);
    CHECK_EQ(purged_granules(), 20 * RUN_GRANULES);
}

FRESH_TEST(ticks_within_a_quarter_do_nothing) {
    start(DELAY_MS);
    take(20);
    give(20);
    for (int quarter = 0; quarter < 4; quarter++) {
        tick_after(QUARTER_MS);
    }
    for (int i = 0; i < QUARTER_MS - 1; i++) {
        tick_after(1);
        CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), 0);
    }
    tick_after(1);
    CHECK_CMP(fake_os_calls(FAKE_OS_PURGE), >, 0);
}

FRESH_TEST(a_purge_that_fails_loses_nothing) {
    start(DELAY_MS);
    take(RUN_LIMIT);
    give(RUN_LIMIT);
    GIVEN("a system that drops no memory");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    for (int i = 0; i < 20; i++) {
        tick_after(QUARTER_MS);
    }
    CHECK(!ps_purge_all(0));
    CHECK_CMP(fake_os_calls(FAKE_OS_PURGE), >, 0);
    CHECK_EQ(purged_granules(), 0);
    CHECK_EQ(dirty_granules(), RUN_LIMIT * RUN_GRANULES);
    THEN("all of it serves again, as dirty as it is");
    take(RUN_LIMIT);
    CHECK(runs[0]->is_dirty);
    CHECK_EQ(dirty_granules(), 0);
    give(RUN_LIMIT);
    WHEN("the system can again");
    fake_os_refuse(0);
    for (int i = 0; i < 16; i++) {
        tick_after(QUARTER_MS);
    }
    CHECK_EQ(dirty_granules(), 0);
}

FRESH_TEST(purging_on_demand_keeps_about_the_requested_bytes) {
    start(DELAY_MS);
    take(RUN_LIMIT);
    give(RUN_LIMIT);
    CHECK(!ps_purge_all(RUN_LIMIT * RUN_GRANULES * PS_GRANULE_BYTES));
    CHECK_EQ(purged_granules(), 0);
    CHECK(ps_purge_all(100 * PS_GRANULE_BYTES));
    CHECK_EQ(dirty_granules(), 100);
    CHECK(ps_purge_all(40 * PS_GRANULE_BYTES + 1));
    CHECK_EQ(dirty_granules(), 40);
    CHECK(!ps_purge_all(SIZE_MAX));
    CHECK(ps_purge_all(0));
    CHECK_EQ(dirty_granules(), 0);
    CHECK(!ps_purge_all(0));
    CHECK_EQ(purged_granules(), RUN_LIMIT * RUN_GRANULES);
}

FRESH_TEST(purged_memory_reads_as_zero) {
    start(DELAY_MS);
    take(RUN_LIMIT);
    give(RUN_LIMIT);
    CHECK(ps_purge_all(0));
    for (size_t i = 0; i < RUN_LIMIT; i++) {
        struct ps_run *run = ps_page_cache_take(RUN_GRANULES, 1);
        REQUIRE(run != NULL);
        CHECK(!run->is_dirty);
        for (size_t j = 0; j < RUN_GRANULES * PS_GRANULE_BYTES; j += 4096) {
            CHECK_EQ(run->base[j], 0);
        }
    }
}

/* The kernel's advice about huge pages there: 'h' to make them, 'n' not to, 0 nothing. */
static char huge_advice(const char *address) {
    char line[512];
    bool is_there = false;
    char advice = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    REQUIRE(file != NULL);
    while (advice == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
            is_there = begin <= (uintptr_t)address && (uintptr_t)address < end;
        } else if (is_there && strncmp(line, "VmFlags:", 8) == 0) {
            advice = strstr(line, " hg") != NULL ? 'h' : strstr(line, " nh") != NULL ? 'n' : 0;
        }
    }
    fclose(file);
    return advice;
}

/* Some kernels have no huge pages, and emulators do not pass on what one may read of them. */
static bool can_read_advice(void) {
    size_t bytes = 2 * HUGE_GRANULES * PS_GRANULE_BYTES;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    bool can_read = madvise(memory, bytes, MADV_HUGEPAGE) == 0 && huge_advice(memory) == 'h';
    munmap(memory, bytes);
    return can_read;
}

FRESH_TEST(huge_pages_with_holes_are_not_made_whole_again) {
    if (!can_read_advice()) {
        UNIT_SKIP("nothing shows here where huge pages may be");
    }
    start(DELAY_MS);
    GIVEN("runs of half a huge page each, the first at its begin; and one of two whole ones");
    REQUIRE(ps_page_cache_take_dense(HUGE_GRANULES) != NULL); /* the first arena, which is small */
    struct ps_run *half[8];
    for (size_t i = 0; i < 8; i++) {
        half[i] = ps_page_cache_take_dense(HUGE_GRANULES / 2);
        REQUIRE(half[i] != NULL);
    }
    struct ps_run *whole = ps_page_cache_take_dense(2 * HUGE_GRANULES);
    REQUIRE(whole != NULL);
    char *base = half[0]->base;
    REQUIRE(((uintptr_t)base & (HUGE_GRANULES * PS_GRANULE_BYTES - 1)) == 0 && whole->base > base);
    WHEN("half a huge page, two halves of neighbours, and the whole ones are purged");
    char *whole_base = whole->base;
    ps_page_cache_give(half[1]);
    ps_page_cache_give(half[3]);
    ps_page_cache_give(half[4]);
    ps_page_cache_give(whole);
    CHECK(ps_purge_all(0));
    THEN("huge pages in use remain split, the others may come again");
    size_t page = HUGE_GRANULES * PS_GRANULE_BYTES;
    CHECK_EQ(huge_advice(base), 'n');
    CHECK_EQ(huge_advice(base + page), 'n');
    CHECK_EQ(huge_advice(base + 2 * page), 'n');
    CHECK_EQ(huge_advice(base + 3 * page), 'h');
    CHECK_EQ(huge_advice(whole_base), 'h');
    CHECK_EQ(huge_advice(whole_base + 2 * page - 1), 'h');
    WHEN("the rest of a divided one goes, together with its neighbours");
    ps_page_cache_give(half[2]);
    ps_page_cache_give(half[5]);
    CHECK(ps_purge_all(0));
    THEN("those that are free now may come again, too");
    CHECK_EQ(huge_advice(base), 'n');
    CHECK_EQ(huge_advice(base + page), 'h');
    CHECK_EQ(huge_advice(base + 2 * page), 'h');
}

UNIT_MAIN
