// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Pages over time and across threads: a system that refuses, memory that goes back, magazines,
 * pages freed by other threads, threads that end, forks.
 */
#include "pools/common/poison.h"
#include "pools/pages/pages.h"
#include "tests/pools/pages_model.h"
#include "tests/slowness.h"

#include <pthread.h>
#include <sched.h>

FRESH_TEST(memory_that_is_out_changes_nothing) {
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    errno = 0;
    CHECK(ps_pages_alloc(PAGE, 16) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK(ps_pages_alloc(100 * MIB, 16) == NULL);
    CHECK(ps_pages_alloc(8 * GIB, 16) == NULL);
    fake_os_refuse(0);
    for (uint64_t nth = 1; nth < 12; nth++) {
        fake_os_fail_nth(nth);
        for (size_t i = 0; i < 7; i++) {
            char *run = ps_pages_alloc((size_t)1 << (12 + 3 * i), 16);
            if (run != NULL) {
                *run = 1;
                ps_pages_free(run, (size_t)1 << (12 + 3 * i));
            }
        }
        ps_pages_trim_to(0);
        fake_os_fail_nth(0);
    }
    check_all_came_back();
}

FRESH_TEST(freed_pages_lose_their_memory_after_the_delay) {
    enum { COUNT = 1024 };
    static char *pages[COUNT];
    ps_pages_magazine_limit(0);
    for (size_t i = 0; i < COUNT; i++) {
        pages[i] = ps_pages_alloc(PAGE, 16);
        *pages[i] = 1;
    }
    for (size_t i = 0; i < COUNT; i++) { /* all but one page of each granule */
        if (i % 16 != 7) {
            ps_pages_free(pages[i], PAGE);
        }
    }
    uint64_t purged = fake_os_purged_bytes();
    for (int i = 0; i < 60; i++) {
        fake_os_advance_ms(100);
        for (int calls = 0; calls < 20; calls++) {
            ps_pages_free(ps_pages_alloc(3 * MIB, 16), 3 * MIB);
        }
    }
    size_t kept = ps_os_page_bytes() / PAGE; /* of each granule: those in one page of the system */
    CHECK_CMP(fake_os_purged_bytes() - purged, >=, COUNT / 16 * (16 - kept) * PAGE);
    for (size_t i = 7; i < COUNT; i += 16) {
        CHECK_EQ(*pages[i], 1);
        ps_pages_free(pages[i], PAGE);
    }
    check_all_came_back();
}

FRESH_TEST(a_refused_purge_loses_nothing) {
    char *run = ps_pages_alloc(20 * PAGE, 16);
    memset(run, 1, 20 * PAGE);
    ps_pages_free(run + PAGE, 19 * PAGE);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_pages_trim_to(0));
    fake_os_refuse(0);
    CHECK(ps_pages_trim_to(0));
    CHECK_EQ(*run, 1);
    ps_pages_free(run, PAGE);
    check_all_came_back();
}

static const size_t usual_pages[] = {3, 5, 12, 15, 17, 25, 31};
#define USUAL (sizeof usual_pages / sizeof *usual_pages)

FRESH_TEST(lengths_that_are_no_power_of_two_take_no_lock_either) {
    if (ps_poison_is_on) {
        return; /* there are none */
    }
    char *runs[USUAL];
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < USUAL; i++) {
            runs[i] = ps_pages_alloc(usual_pages[i] * PAGE, 16);
        }
        for (size_t i = 0; i < USUAL; i++) {
            ps_pages_free(runs[i], usual_pages[i] * PAGE);
        }
    }
    ps_depot_lock(); /* a call that took the lock now would block for ever */
    for (size_t i = 0; i < USUAL; i++) {
        char *run = ps_pages_alloc(usual_pages[i] * PAGE, 16);
        CHECK_PTR_EQ(run, runs[i]);
        ps_pages_free(run, usual_pages[i] * PAGE);
    }
    ps_depot_unlock();
    check_all_came_back();
}

FRESH_TEST(a_length_in_use_pushes_out_those_that_are_not) {
    if (ps_poison_is_on) {
        return; /* as above */
    }
    char *runs[4];
    for (size_t pages = 10; pages <= 32; pages += 2) { /* more than a magazine caches */
        for (size_t turn = 0; turn < 3; turn++) {
            for (size_t i = 0; i < 4; i++) {
                runs[i] = ps_pages_alloc(pages * PAGE, 16);
            }
            for (size_t i = 0; i < 4; i++) {
                ps_pages_free(runs[i], pages * PAGE);
            }
        }
        ps_depot_lock(); /* as above */
        for (size_t i = 0; i < 4; i++) {
            runs[i] = ps_pages_alloc(pages * PAGE, 16);
        }
        for (size_t i = 0; i < 4; i++) {
            ps_pages_free(runs[i], pages * PAGE);
        }
        ps_depot_unlock();
    }
    check_all_came_back();
}

FRESH_TEST(lengths_that_share_a_stack_keep_each_other_out) {
    if (ps_poison_is_on) {
        return; /* as above */
    }
    struct ps_pages_stats stats;
    for (size_t round = 0; round < 3; round++) {
        char *runs[2 * 8];
        for (size_t i = 0; i < 16; i++) {
            size_t bytes = (i % 2 == 0 ? 25 : 28) * PAGE;
            runs[i] = ps_pages_alloc(bytes, 16);
            memset(runs[i], (int)i, bytes);
        }
        for (size_t i = 0; i < 16; i++) {
            CHECK_EQ(runs[i][24 * PAGE], (char)i);
            ps_pages_free(runs[i], (i % 2 == 0 ? 25 : 28) * PAGE);
        }
        ps_pages_stats(&stats);
        CHECK_EQ(stats.magazine_bytes, 28 * PAGE);
        CHECK_EQ(stats.used_bytes, 0);
    }
    check_all_came_back();
}

FRESH_TEST(a_part_of_a_run_across_granules_comes_back_too) {
    char *run = ps_pages_alloc(40 * PAGE, 16);
    for (size_t at = 0; at < 40; at += 5) { /* two of them lie in two granules */
        ps_pages_free(run + at * PAGE, 5 * PAGE);
    }
    check_all_came_back();
}

FRESH_TEST(magazines_take_no_lock_in_the_steady_state_and_keep_to_their_limit) {
    if (ps_poison_is_on) {
        return; /* there are none */
    }
    struct ps_pages_stats stats;
    char *runs[7];
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < 7; i++) {
            runs[i] = ps_pages_alloc(PAGE << i, 16);
        }
        for (size_t i = 0; i < 7; i++) {
            ps_pages_free(runs[i], PAGE << i);
        }
    }
    ps_depot_lock(); /* a call that took the lock now would block for ever */
    for (size_t i = 0; i < 7; i++) {
        char *run = ps_pages_alloc(PAGE << i, 16);
        CHECK_PTR_EQ(run, runs[i]); /* the newest first */
        ps_pages_free(run, PAGE << i);
    }
    ps_depot_unlock();
    ps_pages_stats(&stats);
    CHECK_CMP(stats.magazine_bytes, <=, MIB);
    CHECK_CMP(stats.magazine_bytes, >=, MIB / 2);
    CHECK_EQ(stats.used_bytes, 0);
    ps_pages_magazine_limit(0);
    ps_pages_free(ps_pages_alloc(PAGE, 16), PAGE);
    ps_pages_stats(&stats);
    CHECK_EQ(stats.magazine_bytes, 0);
    check_all_came_back();
}

/* ---- threads ---- */

#define THREADS 4
#define MAIL_ROOM 64
#define MAIL_COUNT (4000 / FRESH_SLOWNESS)

static char *mail[THREADS][MAIL_ROOM]; /* to the next thread; by atomics */

static void *pass_on(void *argument) {
    size_t self = (size_t)argument;
    size_t sent = 0;
    size_t received = 0;
    while (sent < MAIL_COUNT || received < MAIL_COUNT) {
        char **out = &mail[(self + 1) % THREADS][sent % MAIL_ROOM];
        if (sent < MAIL_COUNT && __atomic_load_n(out, __ATOMIC_ACQUIRE) == NULL) {
            char *run = ps_pages_alloc(PAGE << (sent % 6), 16);
            REQUIRE(run != NULL);
            *(size_t *)run = sent;
            __atomic_store_n(out, run, __ATOMIC_RELEASE);
            sent++;
        }
        char **in = &mail[self][received % MAIL_ROOM];
        char *run = __atomic_load_n(in, __ATOMIC_ACQUIRE);
        if (run != NULL) {
            CHECK_EQ(*(size_t *)run, received);
            __atomic_store_n(in, NULL, __ATOMIC_RELEASE);
            ps_pages_free(run, PAGE << (received % 6));
            received++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

FRESH_TEST(pages_are_freed_by_other_threads_and_ended_threads_keep_none) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, pass_on, (void *)i) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    check_all_came_back();
}

static pthread_key_t late_key;

static void free_late(void *run) {
    ps_pages_free(run, 2 * PAGE);
    ps_pages_free(ps_pages_alloc(PAGE, 16), PAGE);
    if (ps_pages_alloc(2 * PAGE, 16) != NULL) {
        struct ps_pages_stats stats;
        ps_pages_stats(&stats);
        CHECK_EQ(stats.used_bytes, 2 * PAGE);
    }
}

static void *end_with_pages(void *unused) {
    (void)unused;
    pthread_setspecific(late_key, ps_pages_alloc(2 * PAGE, 16));
    return NULL;
}

FRESH_TEST(a_key_destructor_may_use_pages) {
    pthread_t thread;
    ps_pages_free(ps_pages_alloc(PAGE, 16), PAGE); /* the library's key comes first */
    REQUIRE(pthread_key_create(&late_key, free_late) == 0);
    REQUIRE(pthread_create(&thread, NULL, end_with_pages, NULL) == 0);
    pthread_join(thread, NULL);
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    CHECK_EQ(stats.used_bytes, 2 * PAGE);
}

static uint32_t x_stop;

static void *churn(void *unused) {
    (void)unused;
    uint64_t state = 88172645463325252u;
    while (__atomic_load_n(&x_stop, __ATOMIC_RELAXED) == 0) {
        size_t pages[16];
        char *runs[16];
        for (size_t i = 0; i < 16; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            pages[i] = 1 + state % 40;
            runs[i] = ps_pages_alloc(pages[i] * PAGE, 16);
            runs[i][0] = 1;
        }
        for (size_t i = 0; i < 16; i++) {
            ps_pages_free(runs[i], pages[i] * PAGE);
        }
        ps_pages_trim_to(MIB);
    }
    return NULL;
}

static void use_pages_in_child(void) {
    slowness_alarm(20);
    live_count = 0;
    live_pages = 0;
    for (int i = 0; i < 200; i++) {
        random_step();
    }
    while (live_count > 0) {
        do_free(live_count - 1);
    }
    ps_pages_trim_to(0);
    _exit(unit_failures == 0 ? 0 : 1);
}

FRESH_TEST(the_child_of_a_fork_goes_on) {
    (void)unit_random(); /* prints the seed once */
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, churn, NULL) == 0);
    }
    for (int i = 0; i < 20 / FRESH_SLOWNESS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            use_pages_in_child();
        }
        int status = -1;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
    }
    __atomic_store_n(&x_stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    check_all_came_back();
}

UNIT_MAIN
