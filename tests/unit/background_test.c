// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The background thread: when it starts and ends, and what a step of it releases. */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/background.h"

#include <sched.h>
#include <sys/wait.h>

#define BLOCKS 4000
#define STEP_MS 10

/* ThreadSanitizer knows no threads in a child of a process that had some. */
#define CAN_START_IN_CHILD (FRESH_SLOWNESS < 10)
#define SILENCE_MS 4000 /* until nothing is left to do, with the default delay */

static uint32_t x_runs; /* of the job */
static uint32_t x_moves_clock;

static uint32_t count_run(uint64_t now_ms) {
    (void)now_ms;
    ps_add_relaxed(&x_runs, 1u);
    if (ps_load_relaxed(&x_moves_clock) != 0) {
        fake_os_advance_ms(100);
    }
    return 0;
}

static int refuse(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                  void *argument) {
    (void)thread, (void)attributes, (void)routine, (void)argument;
    return EAGAIN;
}

static int created;

/* Behaves like a system where thread-local variables exceed a small stack. */
static int create_large_only(pthread_t *thread, const pthread_attr_t *attributes,
                             void *(*routine)(void *), void *argument) {
    created++;
    return attributes != NULL ? EINVAL : pthread_create(thread, NULL, routine, argument);
}

static void await_runs(uint32_t more) {
    uint32_t runs = ps_load_relaxed(&x_runs) + more;
    while (ps_load_relaxed(&x_runs) < runs) {
        ps_background_note();
        sched_yield();
    }
}

static bool has_ended(void) {
    uint32_t runs = ps_load_relaxed(&x_runs);
    ps_background_stop(); /* blocks until its end */
    return ps_load_relaxed(&x_runs) == runs;
}

FRESH_TEST(it_runs_until_it_is_stopped) {
    ps_engine_start();
    ps_background_start(pthread_create, count_run);
    await_runs(10);
    ps_background_start(pthread_create, count_run); /* one is enough */
    await_runs(10);
    ps_background_stop();
    CHECK(has_ended());
    WHEN("it is wanted again");
    ps_background_start(pthread_create, count_run);
    await_runs(10);
    ps_background_stop();
}

FRESH_TEST(a_thread_that_is_refused_is_tried_again) {
    ps_engine_start();
    errno = 7;
    ps_background_start(refuse, count_run);
    CHECK_EQ(errno, 7);
    CHECK_EQ(ps_control_page.x_background, PS_BACKGROUND_OFF);
    ps_background_stop();
    ps_background_start(create_large_only, count_run);
    CHECK_EQ(created, 2);
    await_runs(2);
    ps_background_stop();
}

FRESH_TEST(it_sleeps_in_silence_and_a_look_at_the_clock_wakes_it) {
    ps_engine_start();
    x_moves_clock = 1;
    ps_background_thread_created(); /* it does not end */
    ps_background_start(pthread_create, count_run);
    /* relaxed: it comes. */
    while (ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_ASLEEP) {
        sched_yield();
    }
    uint32_t runs = ps_load_relaxed(&x_runs);
    ps_background_note();
    while (ps_load_relaxed(&x_runs) == runs) {
        sched_yield();
    }
    ps_background_stop();
}

/* What they have freed is to be purged first. At any moment: it looks now and then whether it is
 * alone. */
FRESH_TEST(it_stays_for_the_delay_when_the_others_have_ended) {
    ps_engine_start();
    x_moves_clock = 1;
    for (uint32_t phase = 0; phase < 12; phase++) {
        ps_background_thread_created();
        ps_background_start(pthread_create, count_run);
        ps_background_thread_begun();
        ps_background_thread_seen();
        await_runs(20 + phase);
        ps_background_thread_ended();
        uint32_t runs = ps_load_relaxed(&x_runs);
        /* relaxed: it comes. */
        while (ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_OFF) {
            ps_background_note();
            sched_yield();
        }
        CHECK_CMP(ps_load_relaxed(&x_runs) - runs, >=, 7); /* of 100 ms */
        ps_background_stop();
    }
}

FRESH_TEST(it_ends_when_one_thread_is_left) {
    ps_engine_start();
    x_moves_clock = 1;
    ps_background_thread_created();
    ps_background_start(pthread_create, count_run);
    await_runs(100); /* ten seconds: a thread has been created */
    ps_background_thread_begun();
    ps_background_thread_seen();
    await_runs(100); /* now it has begun */
    ps_background_thread_ended();
    uint32_t runs;
    do { /* ends: it ends by itself */
        runs = ps_load_relaxed(&x_runs);
        for (int i = 0; i < 1000; i++) {
            ps_background_note();
            sched_yield();
        }
    } while (ps_load_relaxed(&x_runs) != runs);
    CHECK_EQ(ps_load_relaxed(&ps_control_page.x_background) & 1, 0);
    WHEN("a thread is started");
    ps_background_thread_created();
    ps_background_start(pthread_create, count_run);
    await_runs(100);
    ps_background_stop();
}

FRESH_TEST(it_may_end_at_once_when_the_last_other_thread_was_joined) {
    ps_engine_start();
    ps_background_thread_created();
    ps_background_start(pthread_create, count_run);
    CHECK(!ps_background_may_end()); /* one is being started */
    ps_background_thread_begun();
    ps_background_thread_seen();
    CHECK(!ps_background_may_end());
    await_runs(2);
    ps_background_thread_ended();
    CHECK(ps_background_may_end());
    CHECK(has_ended());
    CHECK_EQ(ps_control_page.x_background, PS_BACKGROUND_OFF);
}

FRESH_TEST(it_ends_before_the_last_thread_does) {
    ps_engine_start();
    ps_background_thread_begun(); /* beside this one */
    ps_background_start(pthread_create, count_run);
    ps_background_thread_ended();
    await_runs(10);
    ps_background_thread_ended();
    CHECK(has_ended());
    ps_background_thread_begun();
}

FRESH_TEST(a_child_has_none_until_it_starts_a_thread) {
    ps_engine_start();
    ps_background_start(pthread_create, count_run);
    await_runs(2);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        CHECK_EQ(ps_control_page.x_background, PS_BACKGROUND_OFF);
        ps_background_stop(); /* there is no thread to join */
        if (CAN_START_IN_CHILD) {
            ps_background_start(pthread_create, count_run);
            await_runs(2);
        }
        ps_background_thread_ended(); /* this one: it is the last */
        CHECK(has_ended());
    }
    unit_join_child(child);
    await_runs(2);
    ps_background_stop();
}

static struct live_block blocks[BLOCKS];

static void rise_and_fall(void *unused) {
    (void)unused;
    live_rise_and_fall(blocks, BLOCKS);
}

FRESH_TEST(steps_release_all_that_threads_without_calls_keep) {
    struct worker sleeper;
    ps_engine_start();
    worker_start(&sleeper);
    worker_do(&sleeper, rise_and_fall, NULL);
    uint32_t more_ms = 1;
    CHECK_CMP(engine_census().cache_dirty_bytes, >, 0);
    for (uint64_t passed = 0; passed < SILENCE_MS || more_ms != 0; passed += STEP_MS) {
        fake_os_advance_ms(STEP_MS);
        more_ms = ps_maintenance_step(ps_os_now_ms());
        REQUIRE(passed < 100 * SILENCE_MS);
    }
    struct ps_census census = engine_census();
    CHECK_EQ(census.cache_dirty_bytes, 0);
    CHECK_EQ(census.map_cached_bytes, 0);
    for (uint32_t i = 0; i < census.class_count; i++) {
        CHECK_CMP(census.classes[i].slabs, <=, 1); /* of a window */
    }
    WHEN("both go on");
    worker_do(&sleeper, rise_and_fall, NULL);
    rise_and_fall(NULL);
    worker_stop(&sleeper);
    check_live_blocks(0);
}

UNIT_MAIN
