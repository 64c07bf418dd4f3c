/* SPDX-License-Identifier: MIT */
/*
 * The processor's trap flag: while it is set, a thread gets SIGTRAP after each of its instructions.
 * Included by tests.
 */
#ifndef PS_TESTS_TRAP_FLAG_H
#define PS_TESTS_TRAP_FLAG_H

#include "tests/arch/arch.h"

#include <stdbool.h>

/* Under a sanitizer its own instructions would be stepped. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CAN_STEP 0
#else
#define CAN_STEP (TEST_TRAP_FLAG != 0)
#endif

static void set_trap_flag(bool is_on) {
    if (CAN_STEP) {
        test_set_trap_flag(is_on);
    }
}

#endif
