/* SPDX-License-Identifier: MIT */
/*
 * See poison.h.
 */
#include "pools/common/poison.h"

bool ps_poison_is_on;

/* Runs before any constructor of the program: marks must not begin later. */
__attribute__((constructor(101))) static void look_around(void) { ps_poison_is_on = PS_IS_WATCHED; }

PS_COLD void ps_poison_slow(const void *memory, size_t bytes) { PS_MARK_NO_ACCESS(memory, bytes); }

PS_COLD void ps_unpoison_slow(const void *memory, size_t bytes) {
    PS_MARK_UNDEFINED(memory, bytes);
}

PS_COLD void ps_unpoison_defined_slow(const void *memory, size_t bytes) {
    PS_MARK_DEFINED(memory, bytes);
}
