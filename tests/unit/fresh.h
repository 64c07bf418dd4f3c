/* SPDX-License-Identifier: MIT */
/*
 * Tests of a fresh engine: its state is one per process and never starts over, so each FRESH_TEST
 * runs in a child of its own, forked before the engine was used. A child that hangs ends by alarm.
 * Included by unit test files instead of unit.h.
 */
#ifndef PS_TESTS_UNIT_FRESH_H
#define PS_TESTS_UNIT_FRESH_H

#include "tests/slowness.h"
#include "tests/unit/unit.h"

#define FRESH_SECONDS_MAX 100

/* ThreadSanitizer is ten times slower: long loops of one thread are cut short there. */
#if defined(__SANITIZE_THREAD__)
#define FRESH_SLOWNESS 10
#elif defined(__SANITIZE_ADDRESS__)
#define FRESH_SLOWNESS 2
#else
#define FRESH_SLOWNESS 1
#endif

/* Like TEST, in a child process of its own. */
#define FRESH_TEST(claim)                                                                          \
    static void claim##_in_child(void);                                                            \
    TEST(claim) { fresh_run(claim##_in_child); }                                                   \
    static void claim##_in_child(void)

/* Runs the body in a child of its own; the status that waitpid gives. */
__attribute__((unused)) static int fresh_status(void (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        slowness_alarm(FRESH_SECONDS_MAX);
        unit_failures = 0;
        body();
        fflush(NULL);
        _exit(unit_failures == 0 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return status;
}

__attribute__((unused)) static void fresh_run(void (*body)(void)) {
    int status = fresh_status(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIPPED) {
        exit(unit_failures == 0 ? UNIT_SKIPPED : 1); /* as UNIT_SKIP here */
    }
    if (WIFSIGNALED(status)) {
        unit_fail(__FILE__, __LINE__, "the test died by signal %d", WTERMSIG(status));
    }
    CHECK_EQ(status, 0);
}

#endif
