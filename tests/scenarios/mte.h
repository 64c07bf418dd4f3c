/* SPDX-License-Identifier: MIT */
/*
 * For scenarios of POOLSHIM_HARDEN=mte: whether the machine has memory tags, and the tags of
 * pointers.
 */
#ifndef PS_TESTS_SCENARIOS_MTE_H
#define PS_TESTS_SCENARIOS_MTE_H

#include "claim.h"
#include "tests/arch/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#define HWCAP2_OF_TAGS (1ul << 18)

static inline bool machine_has_tags(void) {
    return TEST_ADDRESS_BITS != UINTPTR_MAX && (getauxval(AT_HWCAP2) & HWCAP2_OF_TAGS) != 0;
}

static inline void skip_without_tags(void) {
    if (!machine_has_tags()) {
        puts("this machine has no memory tags");
        exit(77);
    }
}

static inline uintptr_t address_of(const void *pointer) {
    return (uintptr_t)pointer & TEST_ADDRESS_BITS;
}

static inline unsigned tag_of(const void *pointer) { return (unsigned)((uintptr_t)pointer >> 56); }

#endif
