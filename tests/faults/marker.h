/* SPDX-License-Identifier: MIT */
/*
 * What a program under the fault injector says to it: a system call that nothing else makes, which
 * the injector answers itself. Run without the injector the call fails, and all is as if no fault
 * had been asked for. Used by the loads beside this file and by supervisor.c. No locks.
 */
#ifndef PS_TESTS_FAULTS_MARKER_H
#define PS_TESTS_FAULTS_MARKER_H

#include <sys/syscall.h>
#include <unistd.h>

#define MARKER_CALL SYS_getpriority
#define MARKER_WHICH 0x6661756c

enum marker {
    MARKER_BEGIN = 1, /* with --armed: calls count from here on */
    MARKER_END = 2,   /* no fault any more; answers how many there were */
};

/* Ignores errno: -1 without an injector, else the answer. */
static inline long marker_say(enum marker marker) {
    return syscall(MARKER_CALL, MARKER_WHICH, (long)marker);
}

#endif
