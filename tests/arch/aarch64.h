/* SPDX-License-Identifier: MIT */
/*
 * See arch.h.
 */

#define TEST_AUDIT_ARCH AUDIT_ARCH_AARCH64

#define TEST_ADDRESS_BITS (UINTPTR_MAX >> 8)

#define TEST_TRAP_FLAG 0u

static inline void test_set_trap_flag(bool is_on) { (void)is_on; }

#define TEST_HAS_CODE 0
