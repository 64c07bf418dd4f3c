/* SPDX-License-Identifier: MIT */
/*
 * Detection of misuse of pools: the switch PS_DEBUG, the marks of poison.h, and the report of
 * misuse. Callers: the families.
 *
 * PS_DEBUG, read once, comma-separated:
 *
 *   malloc  each object of each pool is a malloc block, so that ordinary tools see it
 *   check   expensive checks: owner thread, double free, foreign pointers, fill
 *
 * Builds with PS_CHECKED behave as if `check` was set.
 */
#ifndef PS_COMMON_DEBUG_H
#define PS_COMMON_DEBUG_H

#include "pools/common/poison.h"

bool ps_debug_is_malloc(void);
bool ps_debug_is_check(void);

/* Prints "poolshim: <what> <pointer> in <pool>" and aborts. */
PS_NORETURN PS_COLD void ps_debug_misuse(const char *what, const void *pointer, const char *pool);

#endif
