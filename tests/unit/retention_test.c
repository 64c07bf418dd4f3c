// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Pressure changes how long free memory is retained, and how much of it is released at a time. */
#include "tests/unit/purge_runs.h"

#define TICKS 40

static void set_pressure(enum ps_pressure pressure) {
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)pressure);
}

static uint64_t purged_by_one_tick(void) {
    uint64_t before = purged_granules();
    ps_purge_tick(ps_os_now_ms());
    return purged_granules() - before;
}

TEST(without_pressure_each_answer_is_the_usual_one) {
    ps_retention_set_delay(DELAY_MS);
    CHECK_EQ(ps_retention_delay_ms(), DELAY_MS);
    CHECK_EQ(ps_retention_interval_ms(250), 250);
    CHECK_EQ(ps_retention_step(8), 8);
}

TEST(less_stays_and_more_goes_the_higher_the_pressure) {
    size_t step = 8;
    uint64_t interval_ms = 250;
    for (int pressure = PS_PRESSURE_NEAR; pressure <= PS_PRESSURE_OVER; pressure++) {
        set_pressure((enum ps_pressure)pressure);
        CHECK_EQ(ps_retention_delay_ms(), 0);
        CHECK_CMP(ps_retention_step(8), >, step);
        CHECK_CMP(ps_retention_interval_ms(250), <, interval_ms);
        step = ps_retention_step(8);
        interval_ms = ps_retention_interval_ms(250);
    }
    CHECK_CMP(step, <=, 4 * 8);
    CHECK_CMP(interval_ms, >, 10);
    set_pressure(PS_PRESSURE_NONE);
}

FRESH_TEST(pressure_ends_the_delay_in_bounded_steps) {
    uint64_t step = 0;
    start(DELAY_MS);
    for (int pressure = PS_PRESSURE_NEAR; pressure <= PS_PRESSURE_OVER; pressure++) {
        take(RUN_LIMIT);
        set_pressure(PS_PRESSURE_NONE);
        give(RUN_LIMIT);
        CHECK_EQ(purged_by_one_tick(), 0);
        set_pressure((enum ps_pressure)pressure);
        uint64_t purged = purged_by_one_tick();
        CHECK_CMP(purged, >, step);
        CHECK_CMP(purged, <, RUN_LIMIT * RUN_GRANULES);
        step = purged;
        for (int tick = 0; tick < TICKS; tick++) {
            (void)purged_by_one_tick();
        }
        CHECK_EQ(dirty_granules(), 0);
    }
}

FRESH_TEST(after_pressure_the_rule_holds_again) {
    start(DELAY_MS);
    take(RUN_LIMIT);
    give(RUN_LIMIT);
    set_pressure(PS_PRESSURE_OVER);
    for (int tick = 0; tick < TICKS; tick++) {
        (void)purged_by_one_tick();
    }
    set_pressure(PS_PRESSURE_NONE);
    take(20);
    uint64_t purged = purged_granules();
    for (int quarter = 0; quarter < 5; quarter++) {
        tick_after(QUARTER_MS);
    }
    give(20);
    uint64_t freed_ms = ps_os_now_ms();
    while (purged_granules() == purged && ps_os_now_ms() < freed_ms + 4 * DELAY_MS) {
        tick_after(10);
    }
    CHECK_CMP(ps_os_now_ms() - freed_ms, >=, DELAY_MS - QUARTER_MS);
    CHECK_CMP(ps_os_now_ms() - freed_ms, <=, DELAY_MS + QUARTER_MS + 10);
    tick_after(QUARTER_MS);
    CHECK_EQ(dirty_granules(), 0);
}

UNIT_MAIN
