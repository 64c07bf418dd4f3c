/* SPDX-License-Identifier: MIT */
/*
 * Tests under PS_DEBUG, which a process reads once: the program runs itself again, for one test or
 * for all, with the variable set. Included by pool tests after unit.h.
 */
#ifndef PS_TESTS_POOLS_RESPAWN_H
#define PS_TESTS_POOLS_RESPAWN_H

#include "tests/unit/again.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Like TEST, in a child process started with PS_DEBUG=value. */
#define DEBUG_TEST(claim, value)                                                                   \
    static void claim##_in_child(void);                                                            \
    TEST(claim) {                                                                                  \
        if (respawn(#claim, (value))) {                                                            \
            claim##_in_child();                                                                    \
        }                                                                                          \
    }                                                                                              \
    static void claim##_in_child(void)

/* All other tests of the program once more, with PS_DEBUG=value. */
#define DEBUG_ALL(claim, value)                                                                    \
    TEST(claim) { (void)respawn(NULL, (value)); }

/* True in the child, for its own test; one of the others does nothing there. */
__attribute__((unused)) static int respawn(const char *claim, const char *value) {
    const char *set = getenv("PS_DEBUG");
    if (set != NULL) {
        return strcmp(set, value) == 0;
    }
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        setenv("PS_DEBUG", value, 1);
        char *arguments[] = {(char *)"respawned", (char *)claim, NULL};
        exec_again(arguments, environ);
        _exit(127);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIPPED) {
        exit(unit_failures == 0 ? UNIT_SKIPPED : 1); /* as UNIT_SKIP here */
    }
    CHECK_EQ(status, 0);
    return 0;
}

#endif
