/* SPDX-License-Identifier: MIT */
/* The engine's clock goes on where the system's goes backward; the system's is read by the code of
 * the kernel in the process. */
#include "pools/engine/os/clock.h"

#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/syscall.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <unistd.h>

#define THREADS 4
#define READINGS 20000
#define STEP_BACK 1000000

static uint64_t x_system; /* the system's clock, atomic, relaxed */

static uint64_t read_system(void) { return __atomic_load_n(&x_system, __ATOMIC_SEQ_CST); }

static void set_system(uint64_t time) { __atomic_store_n(&x_system, time, __ATOMIC_SEQ_CST); }

TEST(a_step_backward_counts_as_no_time_and_what_follows_counts) {
    struct ps_clock clock = {0};
    set_system(5 * STEP_BACK);
    CHECK_EQ(ps_clock_steady(&clock, read_system), 5 * STEP_BACK);
    set_system(5 * STEP_BACK + 7);
    CHECK_EQ(ps_clock_steady(&clock, read_system), 5 * STEP_BACK + 7);
    set_system(10); /* another time namespace */
    CHECK_EQ(ps_clock_steady(&clock, read_system), 5 * STEP_BACK + 7);
    set_system(14);
    CHECK_EQ(ps_clock_steady(&clock, read_system), 5 * STEP_BACK + 11);
    set_system(3); /* a second step */
    CHECK_EQ(ps_clock_steady(&clock, read_system), 5 * STEP_BACK + 11);
    set_system(103);
    CHECK_EQ(ps_clock_steady(&clock, read_system), 5 * STEP_BACK + 111);
}

static struct ps_clock shared_clock;

static void *read_often(void *has_gone_backward) {
    uint64_t last = 0;
    for (int i = 0; i < READINGS; i++) {
        uint64_t now = ps_clock_steady(&shared_clock, read_system);
        if (now < last) {
            *(bool *)has_gone_backward = true;
        }
        last = now;
        __atomic_add_fetch(&x_system, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* All threads together advance the system's clock by as many units as there are readings; the steps
 * backward must add nothing to that. */
TEST(threads_that_see_a_step_at_once_agree_on_one_offset) {
    pthread_t threads[THREADS];
    bool has_gone_backward[THREADS] = {false};
    set_system(8 * (uint64_t)STEP_BACK);
    uint64_t first = ps_clock_steady(&shared_clock, read_system);
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, read_often, &has_gone_backward[i]) == 0);
    }
    for (int step = 0; step < 4; step++) {
        usleep(100);
        __atomic_sub_fetch(&x_system, STEP_BACK, __ATOMIC_SEQ_CST);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(!has_gone_backward[i]);
    }
    uint64_t passed = ps_clock_steady(&shared_clock, read_system) - first;
    CHECK_CMP(passed, <=, THREADS * READINGS);
}

TEST(the_clock_of_the_kernel_is_that_of_libc) {
    struct timespec before;
    struct timespec now;
    struct timespec after;
    errno = 4711;
    clock_gettime(CLOCK_REALTIME, &before);
    ps_clock_read(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_REALTIME, &after);
    CHECK_CMP(before.tv_sec, <=, now.tv_sec);
    CHECK_CMP(now.tv_sec, <=, after.tv_sec);
    ps_clock_read((clockid_t)1000, &now); /* there is none */
    CHECK_EQ(now.tv_sec, 0);
    CHECK_EQ(errno, 4711);
}

TEST(the_auxiliary_vector_is_that_of_libc) {
    CHECK_EQ(ps_auxiliary(AT_PAGESZ), getauxval(AT_PAGESZ));
    CHECK_EQ(ps_auxiliary(AT_EXECFN), getauxval(AT_EXECFN));
    CHECK_EQ(ps_auxiliary(AT_SECURE), getauxval(AT_SECURE));
    CHECK_EQ(ps_auxiliary(4711), 0);
}

/* Without the vDSO, as under valgrind, there is nothing to find. */
TEST(symbols_of_the_vdso_are_found_by_their_names) {
    const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
    CHECK_PTR_EQ(ps_auxiliary_symbol(NULL, PS_VDSO("clock_gettime")), NULL);
    if (image == NULL) {
        return;
    }
    CHECK_PTR_EQ(ps_auxiliary_symbol(image, PS_VDSO("no_such_function")), NULL);
    CHECK_PTR_EQ(ps_auxiliary_symbol(image, ""), NULL);
    CHECK(ps_auxiliary_symbol(image, PS_VDSO("clock_gettime")) != NULL);
    CHECK(ps_auxiliary_symbol(image, PS_VDSO("clock_getres")) != NULL);
}

UNIT_MAIN
