/* SPDX-License-Identifier: MIT */
/* The lock: exclusion, sleeping, the order of ranks, and what the child of a fork makes of it. */
#include "pools/engine/os/lock.h"

#include "tests/slowness.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define ROUNDS 20000

static struct ps_lock lock = PS_LOCK_INIT(PS_RANK_PAGE);
static struct ps_lock low = PS_LOCK_INIT(PS_RANK_INIT);
static struct ps_lock high = PS_LOCK_INIT(PS_RANK_METADATA);
static uint64_t counter; /* plain: only the lock protects it */
static uint32_t x_done;  /* threads that had the lock */
static struct ps_lock *try_lock_target;

static void start_threads(pthread_t *threads, void *(*run)(void *)) {
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, run, NULL) == 0);
    }
}

static void join_threads(pthread_t *threads) {
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void *count_up(void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        ps_lock_acquire(&lock);
        counter++;
        ps_lock_release(&lock);
    }
    return NULL;
}

TEST(one_thread_at_a_time_holds_the_lock) {
    pthread_t threads[THREADS];
    counter = 0;
    start_threads(threads, count_up);
    join_threads(threads);
    CHECK_EQ(counter, (uint64_t)THREADS * ROUNDS);
    CHECK_EQ(lock.x_state, 0);
}

static void *take_once(void *unused) {
    (void)unused;
    ps_lock_acquire(&lock);
    counter++;
    ps_lock_release(&lock);
    ps_add_relaxed(&x_done, 1u);
    return NULL;
}

TEST(threads_that_sleep_on_the_lock_are_all_released) {
    pthread_t threads[THREADS];
    counter = 0;
    ps_store_relaxed(&x_done, 0u);
    GIVEN("a held lock and threads that wait for it");
    ps_lock_acquire(&lock);
    start_threads(threads, take_once);
    while ((ps_load_relaxed(&lock.x_state) & PS_LOCK_WAITERS) == 0) {
        sched_yield();
    }
    CHECK_EQ(ps_load_relaxed(&x_done), 0);
    WHEN("it is released");
    ps_lock_release(&lock);
    THEN("each of them gets it");
    join_threads(threads);
    CHECK_EQ(counter, THREADS);
    CHECK_EQ(lock.x_state, 0);
}

static void *try_once(void *is_taken) {
    *(bool *)is_taken = ps_lock_try(try_lock_target);
    if (*(bool *)is_taken) {
        ps_lock_release(try_lock_target);
    }
    return NULL;
}

/* Whether another thread can have the lock at this moment. */
static bool is_free_for_others(struct ps_lock *target) {
    pthread_t thread;
    bool is_taken = false;
    try_lock_target = target;
    REQUIRE(pthread_create(&thread, NULL, try_once, &is_taken) == 0);
    pthread_join(thread, NULL);
    return is_taken;
}

TEST(try_takes_a_free_lock_and_no_held_one) {
    REQUIRE(ps_lock_try(&lock));
    CHECK(!is_free_for_others(&lock));
    ps_lock_release(&lock);
    CHECK(is_free_for_others(&lock));
}

TEST(ranks_may_ascend) {
    ps_lock_acquire(&low);
    ps_lock_acquire(&lock);
    ps_lock_acquire(&high);
    ps_lock_release(&low); /* releases in any order */
    ps_lock_release(&high);
    ps_lock_release(&lock);
    ps_lock_acquire(&low);
    ps_lock_release(&low);
}

static void take_two(struct ps_lock *first, struct ps_lock *second) {
    ps_lock_acquire(first);
    ps_lock_acquire(second);
}

TEST(checked_builds_abort_on_a_descending_rank) {
    static struct ps_lock twin = PS_LOCK_INIT(PS_RANK_PAGE);
    if (PS_CHECKED) {
        CHECK_ABORTS(take_two(&high, &lock), "poolshim: check failed: ");
        CHECK_ABORTS(take_two(&lock, &low), "poolshim: check failed: ");
        CHECK_ABORTS(take_two(&lock, &twin), "poolshim: check failed: ");
        CHECK_ABORTS(take_two(&lock, &lock), "poolshim: check failed: ps_lock_is_forking()");
        CHECK_ABORTS(ps_lock_release(&lock), "poolshim: check failed: ");
    }
    CHECK(is_free_for_others(&lock));
}

TEST(a_forking_thread_may_take_its_locks_again) {
    GIVEN("a thread that holds locks, inside of a signal handler that forks");
    ps_lock_acquire(&low);
    ps_lock_acquire(&lock);
    ps_lock_fork_begin();
    WHEN("it takes them again, in any order, as fork handlers that allocate do");
    ps_lock_acquire(&lock);
    ps_lock_acquire(&low);
    ps_lock_acquire(&low);
    THEN("others have them only when each taking has been released");
    ps_lock_release(&low);
    ps_lock_release(&low);
    ps_lock_release(&lock);
    CHECK(!is_free_for_others(&low));
    CHECK(!is_free_for_others(&lock));
    ps_lock_fork_end();
    ps_lock_release(&lock);
    ps_lock_release(&low);
    CHECK(is_free_for_others(&low));
    CHECK(is_free_for_others(&lock));
}

static void *fork_too(void *unused) {
    (void)unused;
    ps_lock_fork_begin();
    ps_lock_fork_end();
    return NULL;
}

TEST(threads_that_fork_at_once_do_not_forget_each_other) {
    GIVEN("a forking thread that holds a lock");
    ps_lock_acquire(&high);
    ps_lock_fork_begin();
    WHEN("another thread begins and ends a fork");
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, fork_too, NULL) == 0);
    pthread_join(other, NULL);
    THEN("the first may still take locks of any rank, again too");
    ps_lock_acquire(&low);
    ps_lock_acquire(&high);
    ps_lock_release(&high);
    ps_lock_release(&low);
    ps_lock_fork_end();
    ps_lock_release(&high);
    CHECK(is_free_for_others(&high));
}

/* ---- the child of a fork ---- */

#define WORDS 8

PS_UNDO_LOG(undo, 2 * WORDS);
static struct ps_lock logged = PS_LOCK_INIT_UNDO(PS_RANK_PAGE, &undo);
static uint64_t words[WORDS]; /* under `logged`: equal whenever it is free */
static uint32_t x_step;       /* how far the other thread is */
static uint32_t x_may_go_on;
static size_t words_changed; /* by the other thread when it stops inside of the section */

static bool words_are(uint64_t value) {
    for (size_t i = 0; i < WORDS; i++) {
        if (words[i] != value) {
            return false;
        }
    }
    return true;
}

static void *stop_inside_section(void *unused) {
    (void)unused;
    ps_lock_acquire(&logged);
    ps_lock_acquire(&high);
    for (size_t i = 0; i < words_changed; i++) {
        PS_UNDO_NOTE(&undo, words[i]);
        words[i]++;
        PS_UNDO_NOTE(&undo, words[i]); /* twice is as good as once */
        words[i]++;
    }
    ps_store_release(&x_step, 1u);
    while (ps_load_acquire(&x_may_go_on) == 0) {
        sched_yield();
    }
    for (size_t i = words_changed; i < WORDS; i++) {
        words[i] += 2;
    }
    ps_lock_release(&high);
    ps_lock_release(&logged);
    return NULL;
}

/* Forks while another thread is inside a section; the child's verdict is its exit status. */
static void fork_beside_section(int (*in_child)(void)) {
    for (words_changed = 0; words_changed <= WORDS; words_changed += WORDS / 2) {
        memset(words, 0, sizeof words);
        ps_store_relaxed(&x_step, 0u);
        ps_store_relaxed(&x_may_go_on, 0u);
        pthread_t other;
        REQUIRE(pthread_create(&other, NULL, stop_inside_section, NULL) == 0);
        while (ps_load_acquire(&x_step) == 0) {
            sched_yield();
        }
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            slowness_alarm(60);
            _exit(in_child());
        }
        int status = 1;
        waitpid(pid, &status, 0);
        CHECK_EQ(status, 0);
        ps_store_release(&x_may_go_on, 1u);
        pthread_join(other, NULL);
        CHECK(words_are(2)); /* nothing of it is seen in the parent */
        CHECK(is_free_for_others(&logged));
        CHECK(is_free_for_others(&high));
    }
}

static int find_rolled_back(void) {
    bool is_free = ps_lock_fork_child(&logged) && ps_lock_fork_child(&high);
    bool is_repaired = ps_lock_fork_repaired();
    ps_lock_acquire(&logged);
    ps_lock_acquire(&high);
    bool is_back = words_are(0) && undo.next == undo.first;
    ps_lock_release(&high);
    ps_lock_release(&logged);
    return is_free && is_repaired && is_back && logged.x_state == 0 ? 0 : 1;
}

TEST(the_child_of_a_fork_rolls_back_sections_of_others) { fork_beside_section(find_rolled_back); }

static int take_before_the_handler(void) {
    ps_lock_acquire(&high); /* a handler of the program that runs before ours */
    ps_lock_release(&high);
    ps_lock_acquire(&logged);
    bool is_back = words_are(0);
    words[0] = 7;
    ps_lock_release(&logged);
    (void)ps_lock_fork_child(&logged); /* ours, now */
    return is_back && ps_lock_fork_repaired() && words[0] == 7 ? 0 : 1;
}

TEST(a_held_lock_is_repaired_on_the_way_where_the_handlers_come_late) {
    ps_lock_watch_forks();
    ps_lock_watch_forks();
    fork_beside_section(take_before_the_handler);
}

static int take_between_two_handlers(void) {
    (void)ps_lock_fork_child(&high); /* of a layer whose handler was registered first */
    bool is_repaired = ps_lock_fork_repaired();
    ps_lock_acquire(&logged); /* a handler of the program, before that of the next layer */
    bool is_back = words_are(0);
    ps_lock_release(&logged);
    return is_repaired && is_back ? 0 : 1;
}

TEST(a_held_lock_is_repaired_on_the_way_between_two_handlers) {
    ps_lock_watch_forks();
    fork_beside_section(take_between_two_handlers);
}

static void *hold_for_a_while(void *unused) {
    (void)unused;
    ps_lock_acquire(&low); /* a thread of the child itself */
    ps_store_release(&x_step, 2u);
    while ((ps_load_relaxed(&low.x_state) & PS_LOCK_WAITERS) == 0) {
        sched_yield();
    }
    counter = 99;
    ps_lock_release(&low);
    return NULL;
}

static int wait_for_own_thread(void) {
    pthread_t thread;
    counter = 0;
    if (pthread_create(&thread, NULL, hold_for_a_while, NULL) != 0) {
        return 2;
    }
    while (ps_load_acquire(&x_step) != 2) {
        sched_yield();
    }
    ps_lock_acquire(&low);
    bool has_waited = counter == 99;
    ps_lock_release(&low);
    return pthread_join(thread, NULL) == 0 && has_waited ? 0 : 1;
}

TEST(a_child_without_fork_handlers_waits_for_threads_of_its_own) {
#if defined(__SANITIZE_THREAD__)
    UNIT_SKIP("ThreadSanitizer supports no threads in the child of a process with threads");
#endif
    ps_lock_watch_forks();
    fork_beside_section(wait_for_own_thread);
}

static int go_on_with_section(void) {
    bool is_left = !ps_lock_fork_child(&logged) && !ps_lock_fork_repaired();
    bool is_held = logged.x_state == ps_lock_self() && words[0] == 1 && undo.next == undo.first + 1;
    words[1] = 1;
    ps_lock_fork_end();
    ps_lock_release(&logged);
    return is_left && is_held && logged.x_state == 0 && undo.next == undo.first ? 0 : 1;
}

TEST(a_section_that_a_forking_signal_handler_interrupted_goes_on_in_both) {
    GIVEN("a thread inside a locked section");
    memset(words, 0, sizeof words);
    ps_lock_acquire(&logged);
    PS_UNDO_NOTE(&undo, words[0]);
    words[0] = 1;
    WHEN("it forks there");
    ps_lock_fork_begin();
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        slowness_alarm(60);
        _exit(go_on_with_section());
    }
    ps_lock_fork_end();
    int status = 1;
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    THEN("parent and child still hold the lock until the section ends");
    CHECK(!is_free_for_others(&logged));
    ps_lock_release(&logged);
    CHECK(is_free_for_others(&logged));
}

TEST(notes_of_a_nested_section_are_removed) {
    GIVEN("a thread inside a locked section, in a signal handler that forks");
    memset(words, 0, sizeof words);
    ps_lock_acquire(&logged);
    PS_UNDO_NOTE(&undo, words[0]);
    words[0] = 1;
    ps_lock_fork_begin();
    WHEN("fork handlers use the lock, more often than the log has room");
    for (size_t i = 0; i < 5 * WORDS; i++) {
        ps_lock_acquire(&logged);
        PS_UNDO_NOTE(&undo, words[1]);
        words[1]++;
        ps_lock_commit(&logged);
        PS_UNDO_NOTE(&undo, words[2]);
        words[2]++;
        ps_lock_release(&logged);
    }
    THEN("the log has what the interrupted section noted");
    CHECK(undo.next == undo.first + 1);
    ps_lock_fork_end();
    ps_lock_release(&logged);
    CHECK(undo.next == undo.first);
    CHECK_EQ(words[1] + words[2], 10 * WORDS);
}

TEST(a_full_log_stops_the_program) {
    PS_UNDO_LOG(small, 1);
    PS_UNDO_NOTE(&small, words[0]);
    CHECK_ABORTS(PS_UNDO_NOTE(&small, words[1]), "poolshim: check failed: an undo log is full");
}

UNIT_MAIN
