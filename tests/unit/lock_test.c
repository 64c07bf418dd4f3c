/* SPDX-License-Identifier: MIT */
/* The lock: exclusion, sleeping, the order of ranks, and taking again around a fork. */
#include "pools/os/lock.h"

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

TEST(threads_that_sleep_on_the_lock_are_all_woken) {
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
        CHECK_ABORTS(take_two(&lock, &lock), "poolshim: check failed: is_forking");
        CHECK_ABORTS(ps_lock_release(&lock), "poolshim: check failed: ");
    }
    CHECK(is_free_for_others(&lock));
}

TEST(a_forking_thread_may_take_again_what_it_holds) {
    GIVEN("a thread that forks and holds all locks");
    ps_lock_fork_prepare();
    ps_lock_acquire(&low);
    ps_lock_acquire(&lock);
    WHEN("it takes them again, in any order");
    ps_lock_acquire(&lock);
    ps_lock_acquire(&low);
    ps_lock_acquire(&low);
    THEN("others have them only when each taking has been released");
    ps_lock_release(&low);
    ps_lock_release(&low);
    ps_lock_release(&lock);
    CHECK(!is_free_for_others(&low));
    CHECK(!is_free_for_others(&lock));
    ps_lock_release(&lock);
    ps_lock_release(&low);
    ps_lock_fork_parent();
    CHECK(is_free_for_others(&low));
    CHECK(is_free_for_others(&lock));
}

static void *fork_too(void *unused) {
    (void)unused;
    ps_lock_fork_prepare();
    ps_lock_fork_parent();
    return NULL;
}

TEST(threads_that_fork_at_once_do_not_forget_each_other) {
    GIVEN("a forking thread that holds locks of higher rank, as handlers registered later do");
    ps_lock_fork_prepare();
    ps_lock_acquire(&high);
    WHEN("another thread begins and ends a fork");
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, fork_too, NULL) == 0);
    pthread_join(other, NULL);
    THEN("the first may still take locks of any rank, again too");
    ps_lock_acquire(&low);
    ps_lock_acquire(&high);
    ps_lock_release(&high);
    ps_lock_release(&low);
    ps_lock_release(&high);
    ps_lock_fork_parent();
    CHECK(is_free_for_others(&high));
}

/* Forks as the engine does, with `lock` and `high` taken; the child's verdict is its exit status.
 */
static void check_fork(int (*in_child)(void)) {
    ps_lock_fork_prepare();
    ps_lock_acquire(&lock);
    ps_lock_acquire(&high);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(60);
        _exit(in_child());
    }
    ps_lock_release(&high);
    ps_lock_release(&lock);
    ps_lock_fork_parent();
    int status = 1;
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
}

static void reset_in_child(void) {
    ps_lock_fork_child();
    ps_lock_reset(&high);
    ps_lock_reset(&lock);
    ps_lock_fork_parent();
}

static int use_locks_in_child(void) {
    ps_lock_acquire(&lock); /* a handler of the program that runs before ours */
    bool is_taken_again = lock.depth == 1;
    ps_lock_release(&lock);
    reset_in_child();
    bool is_free = lock.x_state == 0 && high.x_state == 0;
    ps_lock_acquire(&lock);
    bool is_own = lock.x_state == ps_lock_self();
    ps_lock_release(&lock);
    return is_taken_again && is_free && is_own ? 0 : 1;
}

TEST(the_child_of_a_fork_has_all_locks_free_under_its_own_id) {
    check_fork(use_locks_in_child);
    CHECK(is_free_for_others(&lock));
}

static int release_interrupted_section(void) {
    reset_in_child();
    bool is_held = lock.x_state == ps_lock_self() && lock.depth == 0;
    ps_lock_release(&lock);
    return is_held && lock.x_state == 0 ? 0 : 1;
}

TEST(a_section_that_a_forking_signal_handler_interrupted_goes_on_in_both) {
    GIVEN("a thread inside a locked section");
    ps_lock_acquire(&lock);
    WHEN("it forks there");
    check_fork(release_interrupted_section);
    THEN("parent and child still hold the lock until the section ends");
    CHECK(!is_free_for_others(&lock));
    ps_lock_release(&lock);
    CHECK(is_free_for_others(&lock));
}

UNIT_MAIN
