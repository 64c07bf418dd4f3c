/* SPDX-License-Identifier: MIT */
/* Numbers by which threads find their fronts where there are no sequences. */
#include "pools/engine/front/number.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS (PS_FRONTS_LOCKED + 8)

static pthread_barrier_t taken;
static pthread_barrier_t leaving;

static void *hold_number(void *out) {
    *(size_t *)out = ps_front_number();
    pthread_barrier_wait(&taken);
    pthread_barrier_wait(&leaving);
    bool is_same = ps_front_number() == *(size_t *)out;
    ps_front_number_return();
    return is_same ? out : NULL;
}

/* As many threads at once; their numbers. */
static void number(unsigned threads, size_t *numbers) {
    pthread_t thread[THREADS];
    pthread_barrier_init(&taken, NULL, threads + 1);
    pthread_barrier_init(&leaving, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        REQUIRE(pthread_create(&thread[i], NULL, hold_number, &numbers[i]) == 0);
    }
    pthread_barrier_wait(&taken);
    pthread_barrier_wait(&leaving);
    for (unsigned i = 0; i < threads; i++) {
        void *same = NULL;
        pthread_join(thread[i], &same);
        CHECK(same != NULL);
    }
    pthread_barrier_destroy(&taken);
    pthread_barrier_destroy(&leaving);
}

static void check_each_once(const size_t *numbers, unsigned count) {
    uint64_t seen = 0;
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(numbers[i] < PS_FRONTS_LOCKED);
        seen |= (uint64_t)1 << numbers[i];
    }
    CHECK_EQ(__builtin_popcountll(seen), count);
}

TEST(living_threads_have_the_lowest_numbers) {
    size_t numbers[THREADS];
    for (unsigned round = 0; round < 100; round++) {
        number(4, numbers);
        check_each_once(numbers, 4);
        for (unsigned i = 0; i < 4; i++) {
            CHECK(numbers[i] < 4);
        }
    }
}

TEST(beyond_the_last_number_threads_share) {
    size_t numbers[THREADS];
    number(THREADS, numbers);
    uint64_t seen = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        REQUIRE(numbers[i] < PS_FRONTS_LOCKED);
        seen |= (uint64_t)1 << numbers[i];
    }
    CHECK(seen == UINT64_MAX);
    number(PS_FRONTS_LOCKED, numbers); /* each was returned once */
    check_each_once(numbers, PS_FRONTS_LOCKED);
}

/* Behind four threads, so that its number is the fifth. */
static void *fork_beside(void *unused) {
    bool was_fifth = ps_front_number() == 4;
    pid_t child = fork();
    if (child == 0) { /* no threads are made in it: the thread sanitizer allows none */
        ps_front_number_fork_child();
        bool has_own = ps_front_number() == 4;
        ps_front_number_return();
        _exit(has_own && ps_front_number() == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ps_front_number_return();
    return was_fifth && status == 0 ? NULL : unused;
}

TEST(the_child_of_a_fork_has_the_numbers_of_the_other_threads) {
    pthread_t thread[5];
    size_t numbers[4];
    char unused;
    void *failed = &unused;
    pthread_barrier_init(&taken, NULL, 5);
    pthread_barrier_init(&leaving, NULL, 5);
    for (unsigned i = 0; i < 4; i++) {
        REQUIRE(pthread_create(&thread[i], NULL, hold_number, &numbers[i]) == 0);
    }
    pthread_barrier_wait(&taken);
    REQUIRE(pthread_create(&thread[4], NULL, fork_beside, &unused) == 0);
    pthread_join(thread[4], &failed);
    CHECK(failed == NULL);
    pthread_barrier_wait(&leaving);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
    }
}

UNIT_MAIN
