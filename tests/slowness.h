/* SPDX-License-Identifier: MIT */
/*
 * Limits of time in programs of tests. Where programs are emulated, or get little of the machine,
 * TEST_SLOWNESS says how many times longer limits are. tests/conftest.py has the same for whole
 * programs. Calls libc only, and allocates nothing.
 */
#ifndef PS_TESTS_SLOWNESS_H
#define PS_TESTS_SLOWNESS_H

#include <stdlib.h>
#include <unistd.h>

/* At least 1. */
__attribute__((unused)) static unsigned slowness_factor(void) {
    const char *text = getenv("TEST_SLOWNESS");
    unsigned slowness = text == NULL ? 1 : (unsigned)atoi(text);
    return slowness == 0 ? 1 : slowness;
}

/* An alarm after so many seconds of a usual machine. */
__attribute__((unused)) static void slowness_alarm(unsigned seconds) {
    alarm(seconds * slowness_factor());
}

#endif
