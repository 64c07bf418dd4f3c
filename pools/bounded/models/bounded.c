/* SPDX-License-Identifier: MIT */
/*
 * A bounded pool: threads with and without caches allocate, use and free objects, and one takes the
 * cache of an ended thread. No object has two owners, its contents go with it, none is lost.
 * Numbers of threads are the explorer's; a thread that ends releases its own. Sources and faults to
 * find: bounded.model.
 */
#include "pools/bounded/bounded.h"
#include "pools/common/thread_number.h"

#include <chunks.h>

#include <explore.h>

struct object {
    uint64_t content;
};

static struct ps_bounded *pool;
static struct object *held[3];
static uint32_t x_in_use[4]; /* of each number */

static bool has_numbers; /* threads without one use the shared stacks alone */

uint32_t ps_thread_number_ask(void) { return has_numbers ? explore_thread() : 0; }

bool ps_thread_number_claim(uint32_t number) {
    uint32_t expected = 0;
    /* acquire: pairs with the release below, as in thread_number.c. */
    return ps_cas_strong_acquire(&x_in_use[number], &expected, 1u);
}

void ps_thread_number_release(uint32_t number) {
    ps_store_release(&x_in_use[number], 0u); /* release: pairs with the claim */
}

/* The same memory in each scenario: addresses of words do not change. */
static void make(bool is_cached) {
    const struct ps_bounded_options options = {.cache_items = 2, .threads = 3};
    has_numbers = is_cached;
    pool = ps_bounded_create(sizeof(struct object), 0, 3, &options);
    EXPLORE_ASSERT(pool != NULL);
    for (uint32_t number = 1; number < 4; number++) {
        x_in_use[number] = 1;
    }
}

/* As the main thread of a program, which has no cache here. */
static void hold(size_t count) {
    for (size_t i = 0; i < count; i++) {
        held[i] = ps_bounded_alloc_slow(pool);
        EXPLORE_ASSERT(held[i] != NULL);
    }
}

static void set_up_exact(void) {
    make(false);
    hold(2);
}

static void set_up_exact_free(void) {
    set_up_exact();
    ps_bounded_free_slow(pool, held[0]);
    ps_bounded_free_slow(pool, held[1]);
}

static void set_up_cached(void) {
    make(true);
    hold(3);
}

static void use_and_free(struct object *object) {
    explore_use(object, sizeof *object);
    ps_bounded_free_slow(pool, object);
}

static void take_and_free(void) {
    struct object *object = ps_bounded_alloc_slow(pool);
    if (object != NULL) {
        use_and_free(object);
    }
}

static void take_and_keep(void) {
    struct object *object = ps_bounded_alloc_slow(pool);
    if (object != NULL) {
        explore_use(object, sizeof *object);
    }
}

static void take_two_and_free_one(void) {
    struct object *first = ps_bounded_alloc_slow(pool);
    (void)ps_bounded_alloc_slow(pool);
    if (first != NULL) {
        use_and_free(first);
    }
}

static void free_0(void) { use_and_free(held[0]); }

static void free_1(void) { use_and_free(held[1]); }

/* Fills its cache, so that a list goes to the others. */
static void free_all(void) {
    for (size_t i = 0; i < 3; i++) {
        use_and_free(held[i]);
    }
}

static void free_and_end(void) {
    use_and_free(held[0]);
    ps_thread_number_release(explore_thread());
}

static void check(void) { EXPLORE_ASSERT(ps_bounded_check(pool)); }

/* Without caches no object may be out of reach. */
static void check_exact(void) {
    check();
    struct ps_bounded_stats stats;
    ps_bounded_stats(pool, &stats);
    for (size_t i = stats.used_count; i < pool->count; i++) {
        EXPLORE_ASSERT(ps_bounded_alloc_slow(pool) != NULL);
    }
    EXPLORE_ASSERT(ps_bounded_alloc_slow(pool) == NULL);
    check();
}

/* All threads have ended. */
static void check_ended(void) {
    ps_thread_number_release(2);
    ps_thread_number_release(3);
    check_exact();
}

const struct explore_scenario explore_scenarios[] = {
    {"exact", set_up_exact, {free_0, take_and_free, free_1}, check_exact, false},
    {"again", set_up_exact_free, {take_and_keep, take_two_and_free_one}, check_exact, false},
    {"cached", set_up_cached, {free_all, take_and_free, take_and_keep}, check, false},
    {"ended", set_up_cached, {free_and_end, take_and_keep, take_and_free}, check_ended, false},
    {NULL, NULL, {NULL}, NULL, false},
};
