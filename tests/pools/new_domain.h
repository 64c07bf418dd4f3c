/* SPDX-License-Identifier: MIT */
/*
 * Domains for tests, objects that note when they are freed, and readers that do not leave. Included
 * by the tests of retired objects after fresh.h.
 */
#ifndef PS_TESTS_POOLS_NEW_DOMAIN_H
#define PS_TESTS_POOLS_NEW_DOMAIN_H

#include "tests/unit/unit.h"

#include <poolshim/retire.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static size_t x_freed; /* objects, by any thread */

static void note(void *object, void *context) {
    (void)context;
    ++*(int *)object;
    __atomic_fetch_add(&x_freed, 1, __ATOMIC_RELAXED);
}

static int objects[2000];

/* In a child that runs all tests again: domains whose readers make the barrier. */
#define FENCED "RETIRE_TEST_FENCED"

static struct ps_retire *new_domain(size_t limit, size_t threads, bool is_waiting) {
    struct ps_retire_options options = {.limit_items = limit,
                                        .threads = threads,
                                        .is_waiting = is_waiting,
                                        .is_fenced = getenv(FENCED) != NULL};
    struct ps_retire *domain = ps_retire_create(&options);
    REQUIRE(domain != NULL);
    memset(objects, 0, sizeof objects);
    x_freed = 0;
    return domain;
}

static void check_freed_once(size_t count) {
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(objects[i], 1);
    }
    CHECK_EQ(x_freed, count);
}

struct reader {
    struct ps_retire *domain;
    int x_step; /* 1: the reader is inside; 2: it may leave */
};

static void *stay_inside(void *argument) {
    struct reader *reader = argument;
    CHECK(ps_retire_enter(reader->domain));
    CHECK(ps_retire_enter(reader->domain));
    ps_retire_leave(reader->domain);
    __atomic_store_n(&reader->x_step, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&reader->x_step, __ATOMIC_ACQUIRE) != 2) {
        sched_yield();
    }
    ps_retire_leave(reader->domain);
    return NULL;
}

static pthread_t start_reader(struct reader *reader) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, stay_inside, reader) == 0);
    while (__atomic_load_n(&reader->x_step, __ATOMIC_ACQUIRE) != 1) {
        sched_yield();
    }
    return thread;
}

static void end_reader(struct reader *reader, pthread_t thread) {
    __atomic_store_n(&reader->x_step, 2, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

#endif
