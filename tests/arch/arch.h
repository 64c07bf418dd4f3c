/* SPDX-License-Identifier: MIT */
/*
 * What tests know of the processor: a file for each, named as the folder in pools/engine/arch/.
 *
 *   TEST_AUDIT_ARCH     its number in filters of system calls
 *   TEST_TRAP_FLAG      the bit of its flags by which a thread is stepped, and test_set_trap_flag,
 *                       where a program may set it; else 0
 *   TEST_ADDRESS_BITS   of a pointer; others may be a tag
 *   TEST_HAS_CODE       1 with code for the tests of generated code: TEST_CODE_*
 */
#ifndef PS_TESTS_ARCH_ARCH_H
#define PS_TESTS_ARCH_ARCH_H

#include "pools/engine/arch/arch.h"

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#include PS_ARCH_PATH(tests/arch/PS_ARCH.h)
/* clang-format on */

#endif
