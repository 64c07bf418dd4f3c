/* SPDX-License-Identifier: MIT */
/*
 * Retired objects in C: when they are freed and when not, the bound and readers that do not leave,
 * threads that end, forks, PS_DEBUG.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/new_domain.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <poolshim/retire.h>
#include <pthread.h>

TEST(objects_are_freed_once_when_nothing_is_inside) {
    struct ps_retire *domain = new_domain(0, 0, false);
    errno = 7;
    for (size_t i = 0; i < 2000; i++) {
        CHECK(ps_retire(domain, &objects[i], note, NULL));
    }
    CHECK_EQ(errno, 7);
    CHECK_CMP(x_freed, >=, 2000 - 512);
    CHECK(ps_retire_wait(domain));
    check_freed_once(2000);
    struct ps_retire_stats stats;
    ps_retire_stats(domain, &stats);
    CHECK_EQ(stats.waiting_count, 0);
    CHECK_EQ(stats.limit_items, 512);
    ps_retire_destroy(domain);
    ps_retire_destroy(NULL);
}

TEST(destroy_frees_the_rest) {
    struct ps_retire *domain = new_domain(1024, 0, false);
    for (size_t i = 0; i < 100; i++) {
        CHECK(ps_retire(domain, &objects[i], note, NULL));
    }
    ps_retire_destroy(domain);
    check_freed_once(100);
}

TEST(arguments_out_of_range_are_refused) {
    static const struct ps_retire_options bad[] = {
        {.limit_items = 3}, {.limit_items = (size_t)1 << 25}, {.threads = 1025}};
    for (size_t i = 0; i < 3; i++) {
        errno = 0;
        CHECK(ps_retire_create(&bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    struct ps_retire *domain = new_domain(0, 0, false);
    CHECK(!ps_retire(domain, objects, NULL, NULL));
    CHECK_EQ(errno, EINVAL);
    ps_retire_destroy(domain);
}

TEST(a_source_that_refuses_makes_no_domain) {
    if (ps_debug_is_malloc()) {
        return;
    }
    struct counting_source source = new_source(0);
    struct ps_retire_options options = {.chunks = {.source = &source.source}};
    errno = 0;
    CHECK(ps_retire_create(&options) == NULL);
    CHECK_EQ(errno, ENOMEM);
    source.calls_max = SIZE_MAX;
    struct ps_retire *domain = ps_retire_create(&options);
    for (size_t i = 0; i < 1000; i++) {
        CHECK(ps_retire(domain, &objects[i], note, NULL));
    }
    CHECK_EQ(source.calls, 2);
    ps_retire_destroy(domain);
    CHECK_EQ(source.live_bytes, 0);
}

/* ---- readers ---- */

TEST(a_reader_inside_keeps_what_is_retired_after_it_entered) {
    struct reader reader = {new_domain(64, 0, false), 0};
    pthread_t thread = start_reader(&reader);
    size_t count = 0;
    errno = 0;
    while (count < 100 && ps_retire(reader.domain, &objects[count], note, NULL)) {
        count++;
    }
    THEN("the garbage is bounded, and the caller is told");
    CHECK_EQ(count, 64);
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(x_freed, 0);
    CHECK_EQ(ps_retire_collect(reader.domain), 0);
    WHEN("the reader has left");
    end_reader(&reader, thread);
    CHECK(ps_retire(reader.domain, &objects[count], note, NULL));
    CHECK_CMP(x_freed, >, 0);
    CHECK(ps_retire_wait(reader.domain));
    check_freed_once(65);
    ps_retire_destroy(reader.domain);
}

static void *leave_after_a_while(void *argument) {
    struct reader *reader = argument;
    for (size_t i = 0; i < 1000; i++) { /* the other thread is blocked meanwhile, or not yet */
        sched_yield();
    }
    __atomic_store_n(&reader->x_step, 2, __ATOMIC_RELEASE);
    return NULL;
}

TEST(a_domain_that_waits_never_refuses) {
    struct reader reader = {new_domain(16, 0, true), 0};
    pthread_t thread = start_reader(&reader);
    for (size_t i = 0; i < 16; i++) {
        CHECK(ps_retire(reader.domain, &objects[i], note, NULL));
    }
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, leave_after_a_while, &reader) == 0);
    CHECK(ps_retire(reader.domain, &objects[16], note, NULL));
    CHECK_EQ(__atomic_load_n(&reader.x_step, __ATOMIC_RELAXED), 2);
    pthread_join(other, NULL);
    pthread_join(thread, NULL);
    ps_retire_destroy(reader.domain);
    check_freed_once(17);
}

TEST(a_thread_that_is_inside_does_not_wait_for_itself) {
    struct ps_retire *domain = new_domain(8, 0, true);
    CHECK(ps_retire_enter(domain));
    for (size_t i = 0; i < 8; i++) {
        CHECK(ps_retire(domain, &objects[i], note, NULL));
    }
    errno = 0;
    CHECK(!ps_retire(domain, &objects[8], note, NULL));
    CHECK_EQ(errno, EAGAIN);
    CHECK(!ps_retire_wait(domain));
    CHECK_EQ(errno, EDEADLK);
    CHECK_EQ(x_freed, 0);
    ps_retire_leave(domain);
    CHECK(ps_retire_wait(domain));
    check_freed_once(8);
    ps_retire_destroy(domain);
}

/* Retires the next object, as the destructor of a list may. */
static void retire_next(void *object, void *context) {
    note(object, NULL);
    int *next = (int *)object + 1;
    if (next < objects + 500) {
        CHECK(ps_retire(context, next, retire_next, context));
    }
}

TEST(free_functions_may_retire) {
    struct ps_retire *domain = new_domain(8, 0, false);
    CHECK(ps_retire(domain, &objects[0], retire_next, domain));
    for (size_t round = 0; round < 2000 && x_freed < 250; round++) {
        (void)ps_retire_collect(domain);
    }
    CHECK_CMP(x_freed, >=, 250);
    ps_retire_destroy(domain);
    check_freed_once(500);
}

/* ---- threads ---- */

static void *retire_and_end(void *domain) {
    for (size_t i = 0; i < 5; i++) {
        CHECK(ps_retire(domain, &objects[i], note, NULL));
    }
    return NULL;
}

TEST(what_an_ended_thread_has_retired_is_freed_by_others) {
    struct ps_retire *domain = new_domain(64, 0, false);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, retire_and_end, domain) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(x_freed, 0);
    for (size_t i = 0; i < 4; i++) {
        (void)ps_retire_collect(domain);
    }
    check_freed_once(5);
    ps_retire_destroy(domain);
}

static void *enter_and_end(void *domain) {
    CHECK(ps_retire_enter(domain));
    return NULL;
}

static void *end_outside(void *domain) {
    struct ps_retire_stats stats;
    ps_retire_stats(domain, &stats);
    return NULL;
}

TEST(a_thread_that_ended_inside_is_not_waited_for) {
    struct ps_retire *domain = new_domain(64, 0, false);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, enter_and_end, domain) == 0);
    pthread_join(thread, NULL);
    CHECK(ps_retire(domain, &objects[0], note, NULL));
    CHECK(ps_retire_wait(domain));
    REQUIRE(pthread_create(&thread, NULL, end_outside, domain) == 0);
    pthread_join(thread, NULL);
    ps_retire_destroy(domain);
    check_freed_once(1);
}

TEST(a_domain_has_so_many_places) {
    struct ps_retire *domain = new_domain(64, 1, false);
    CHECK(ps_retire_enter(domain)); /* number 1 */
    struct reader reader = {domain, 0};
    struct ps_retire *other = new_domain(64, 0, false);
    reader.domain = other;
    pthread_t thread = start_reader(&reader); /* has number 2 */
    end_reader(&reader, thread);
    ps_retire_leave(domain);
    ps_retire_destroy(domain);
    ps_retire_destroy(other);
}

/* ---- the barrier ---- */

TEST(everything_holds_with_readers_that_make_the_barrier) {
    setenv(FENCED, "1", 1);
    (void)respawn(NULL, "");
    unsetenv(FENCED);
}

/* ---- fork, PS_DEBUG ---- */

TEST(a_child_does_not_wait_for_readers_of_the_parent) {
    struct reader reader = {new_domain(64, 0, false), 0};
    pthread_t thread = start_reader(&reader);
    CHECK(ps_retire(reader.domain, &objects[0], note, NULL));
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        slowness_alarm(20);
        CHECK(ps_retire_wait(reader.domain));
        check_freed_once(1);
    }
    unit_join_child(pid);
    CHECK_EQ(x_freed, 0);
    end_reader(&reader, thread);
    ps_retire_destroy(reader.domain);
    check_freed_once(1);
}

DEBUG_TEST(checked_domains_notice_misuse, "check") {
    struct ps_retire *domain = new_domain(64, 0, false);
    CHECK_ABORTS(ps_retire_leave(domain), "poolshim: leave without enter of");
    CHECK(ps_retire_enter(domain));
    CHECK_ABORTS(ps_retire_destroy(domain), "poolshim: a thread is inside of a domain");
    ps_retire_leave(domain);
    CHECK_ABORTS(ps_retire_leave(domain), "poolshim: leave without enter of");
    ps_retire_destroy(domain);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
