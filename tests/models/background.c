/* SPDX-License-Identifier: MIT */
/*
 * The background thread's sleep, start and end (background.h): no reading of the clock is missed by
 * a thread that goes to sleep, none is asleep when it is to end, and one that ends by itself is
 * started again by the program's next thread. Waits with a time-out are over at once. Sources and
 * faults to find: background.model.
 */
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/signals.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/retention.h"

#include <explore.h>
#include <pthread.h>

#define INCARNATIONS 2
#define STEP_MS 400 /* two of them without work are silence */

struct ps_front_words ps_front_thread_of[PS_MODEL_THREADS];

static void *(*routine)(void *);
static uint32_t x_not_created[INCARNATIONS]; /* 0: it is */
static uint32_t x_not_ended[INCARNATIONS];
static unsigned created;
static unsigned joined; /* the last of those */
static uint32_t x_work; /* to be done by the background thread */
static uint32_t x_not_done;
static uint64_t now_ms[EXPLORE_THREADS + 1];

/* ---- replacements of the rest ---- */

uint32_t ps_retention_x_delay_ms;

uint64_t ps_os_now_ms(void) { return now_ms[explore_thread()] += STEP_MS; }

void ps_os_name_thread(const char *name) { (void)name; }

uint32_t *ps_os_word_wiped_by_fork(void) { return NULL; }

void ps_os_wait(uint32_t *word, uint32_t expected) { explore_sleep(word, expected); }

void ps_os_wait_ms(uint32_t *word, uint32_t expected, uint64_t ms) {
    (void)word, (void)expected, (void)ms;
    explore_time_passes();
}

void ps_os_wake_one(uint32_t *word) { explore_wake_one(word); }

void ps_lock_watch_forks(void) {}

uint32_t ps_os_cpus(void) { return 1; }

void ps_medium_set_processors(uint32_t count) { (void)count; }

void ps_check_failed(const char *text) { explore_fail(text); }

int pthread_attr_init(pthread_attr_t *attributes) {
    (void)attributes;
    return 0;
}

int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t bytes) {
    (void)attributes, (void)bytes;
    return 0;
}

int pthread_attr_destroy(pthread_attr_t *attributes) {
    (void)attributes;
    return 0;
}

int pthread_setcancelstate(int state, int *before) {
    (void)state, (void)before;
    return 0;
}

uint64_t ps_signals_block(uint64_t set) {
    (void)set;
    return 0;
}

void ps_signals_set_blocked(uint64_t set) { (void)set; }

static void until(uint32_t *word) {
    uint32_t zero;
    do {
        zero = 0;
        explore_until_zero(word);
    } while (!ps_cas_strong_acquire(word, &zero, 1u)); /* a load could read an older value */
}

int pthread_join(pthread_t thread, void **result) {
    (void)result;
    until(&x_not_ended[thread]);
    joined = (unsigned)thread + 1;
    return 0;
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                  void *argument) {
    (void)attributes, (void)argument;
    EXPLORE_ASSERT(created < INCARNATIONS);
    routine = run;
    *thread = created++;
    ps_store_release(&x_not_created[*thread], 0u);
    return 0;
}

/* The work that a reading of the clock has left is done. */
static uint32_t work(uint64_t unused) {
    (void)unused;
    if (ps_exchange_acquire(&x_work, 0u) != 0) {
        ps_store_release(&x_not_done, 0u);
    }
    return 0;
}

/* ---- the threads ---- */

static void set_up(void) {
    for (int i = 0; i < INCARNATIONS; i++) {
        x_not_created[i] = 1;
        x_not_ended[i] = 1;
    }
    x_not_done = 1;
    ps_background_thread_begun();
    ps_background_start(create, work);
}

static void set_up_two(void) {
    set_up();
    ps_background_thread_begun();
}

static void set_up_unseen(void) {
    set_up();
    ps_background_thread_created();
}

static void run_as(unsigned incarnation) {
    (void)routine(NULL);
    ps_store_release(&x_not_ended[incarnation], 0u);
}

static void runs(void) { run_as(0); }

/* The second start. */
static void runs_again(void) {
    until(&x_not_created[1]);
    if (created == INCARNATIONS) {
        run_as(1);
    }
}

/* Reads the clock, for the last time for a while. */
static void look(void) {
    ps_store_relaxed(&x_work, 1u);
    ps_background_note();
    until(&x_not_done);
}

static void looks_and_stops(void) {
    look();
    ps_background_stop();
}

static void stops(void) { ps_background_stop(); }

static void looks(void) { ps_background_note(); }

static void ends(void) { ps_background_thread_ended(); }

static uint32_t x_not_joinable;

static void set_up_joined(void) {
    set_up_two();
    x_not_joinable = 1;
}

/* The second thread ends, and is joined. */
static void ends_to_be_joined(void) {
    ps_background_thread_ended();
    ps_store_release(&x_not_joinable, 0u);
}

static void joins(void) {
    until(&x_not_joinable);
    EXPLORE_ASSERT(ps_background_may_end());
    ps_background_stop();
    EXPLORE_ASSERT(joined == created);
}

/* The program's thread that was created before begins. */
static void begins_and_stops(void) {
    EXPLORE_ASSERT(ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_OFF);
    ps_background_thread_begun();
    ps_background_thread_seen();
    ps_background_stop();
}

/* As the wrapper of pthread_create: the program's thread is noted before it exists, and may not
 * have begun when the background thread is started. */
static void starts_and_looks(void) {
    ps_background_thread_created();
    ps_background_start(create, work);
    look();
    ps_background_stop();
    if (created < INCARNATIONS) { /* the first one has served */
        ps_store_release(&x_not_created[1], 0u);
    }
}

static void is_over(void) {
    EXPLORE_ASSERT(joined == created);
    explore_outcome(created);
}

const struct explore_scenario explore_scenarios[] = {
    {"look", set_up_two, {looks_and_stops, runs}, is_over, false},
    {"stop", set_up_two, {stops, runs}, is_over, false},
    {"last_ends", set_up_two, {ends, runs, ends}, is_over, false},
    {"joins", set_up_joined, {joins, runs, ends_to_be_joined}, is_over, false},
    {"start", set_up, {starts_and_looks, runs, runs_again}, is_over, true},
    {"unseen", set_up_unseen, {begins_and_stops, runs}, is_over, false},
    {"looks", set_up_two, {looks_and_stops, runs, looks}, is_over, true},
    {NULL, NULL, {NULL}, NULL, false},
};
