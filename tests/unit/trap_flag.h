/* SPDX-License-Identifier: MIT */
/*
 * The processor's trap flag: while it is set, a thread gets SIGTRAP after each of its instructions.
 * Included by tests.
 */
#ifndef PS_TESTS_TRAP_FLAG_H
#define PS_TESTS_TRAP_FLAG_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CAN_STEP 1
#else
#define CAN_STEP 0
#endif

#define TRAP_FLAG 0x100u

#if CAN_STEP
static void set_trap_flag(bool is_on) {
    uint64_t flags;
    __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
    flags = is_on ? flags | TRAP_FLAG : flags & ~(uint64_t)TRAP_FLAG;
    __asm__ volatile("pushq %0\n\tpopfq" : : "r"(flags) : "cc", "memory");
}
#else
static void set_trap_flag(bool is_on) { (void)is_on; }
#endif

#endif
