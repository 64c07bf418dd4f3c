// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Requests of other processes: served in steps, by the program's calls or the background thread. */
#include "tests/unit/engine.h"

#include "pools/engine/heap/background.h"

#define BLOCKS 3000
#define CALLS_LIMIT 100000

static struct live_block blocks[BLOCKS];

static void rise_and_fall(void) { live_rise_and_fall(blocks, BLOCKS); }

static void request(uint32_t command) {
    ps_control_page.x_command = command;
    ps_control_page.x_request++;
}

/* The steps that it took to serve the request. */
static int serve(void (*step)(void)) {
    int steps = 0;
    for (; ps_control_page.x_done != ps_control_page.x_request; steps++) {
        step();
        REQUIRE(steps < CALLS_LIMIT);
    }
    return steps;
}

static void call(void) { ps_heap_free(ps_heap_alloc(600 * KIB)); }

static void maintain(void) { (void)ps_maintenance_step(ps_os_now_ms()); }

FRESH_TEST(a_trim_is_served_by_the_calls_of_the_program) {
    rise_and_fall();
    uint64_t dirty_bytes = engine_census().cache_dirty_bytes;
    CHECK_CMP(dirty_bytes, >, 4 * MIB);
    uint64_t purged_bytes = fake_os_purged_bytes();
    request(PS_CONTROL_TRIM);
    CHECK_CMP(serve(call), >, 1); /* no call does all of it */
    CHECK_EQ(ps_control_page.x_result, PS_CONTROL_DONE);
    CHECK_CMP(ps_control_page.x_result_bytes, >=, dirty_bytes / 2);
    CHECK_CMP(fake_os_purged_bytes() - purged_bytes, >=, dirty_bytes / 2);
    struct ps_census census = engine_census();
    CHECK_CMP(census.cache_dirty_bytes, <=, MIB); /* of the last call */
    CHECK_EQ(census.map_cached_bytes, 0);
}

FRESH_TEST(where_there_is_a_background_thread_it_serves) {
    rise_and_fall();
    ps_control_page.x_background = PS_BACKGROUND_ACTIVE;
    request(PS_CONTROL_TRIM);
    for (int i = 0; i < 1000; i++) {
        call();
    }
    CHECK_NE(ps_control_page.x_done, ps_control_page.x_request);
    CHECK_CMP(serve(maintain), >, 1);
    CHECK_EQ(ps_control_page.x_result, PS_CONTROL_DONE);
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
}

FRESH_TEST(an_unknown_request_changes_nothing) {
    rise_and_fall();
    uint64_t purged_bytes = fake_os_purged_bytes();
    request(77);
    (void)serve(call);
    CHECK_EQ(ps_control_page.x_result, PS_CONTROL_UNKNOWN);
    CHECK_EQ(fake_os_purged_bytes(), purged_bytes);
}

FRESH_TEST(a_request_that_was_withdrawn_is_not_served) {
    rise_and_fall();
    for (int i = 0; i < 1000; i++) { /* purges all beyond the bound */
        call();
    }
    uint64_t purged_bytes = fake_os_purged_bytes();
    request(PS_CONTROL_TRIM);
    ps_control_page.x_request = ps_control_page.x_done;
    for (int i = 0; i < 1000; i++) {
        call();
    }
    CHECK_EQ(fake_os_purged_bytes(), purged_bytes);
}

UNIT_MAIN
