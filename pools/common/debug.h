/* SPDX-License-Identifier: MIT */
/*
 * Detection of misuse of pools: the switch PS_DEBUG, the marks of poison.h, and the report of
 * misuse. Callers: the families.
 *
 * PS_DEBUG, read once, comma-separated:
 *
 *   malloc  each object of each pool is a malloc block, so that ordinary tools see it
 *   check   expensive checks: owner thread, double free, foreign pointers, fill
 *   leaks   registry.h: lists every pool, reports leaks at destroy and at exit
 *
 * Builds with PS_CHECKED behave as if `check` was set, and so do runs under memcheck, unless
 * `malloc` is.
 */
#ifndef PS_COMMON_DEBUG_H
#define PS_COMMON_DEBUG_H

#include "pools/common/poison.h"
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_DEBUG_IS_READ = 1, PS_DEBUG_IS_MALLOC = 2, PS_DEBUG_IS_CHECK = 4, PS_DEBUG_IS_LEAKS = 8 };

/* The bits above; 0: PS_DEBUG has not been read. */
extern PS_HIDDEN uint32_t ps_x_debug;
/* Reads it. */
uint32_t ps_debug_read(void);

/* Inline, since each region and pool that is made asks. */
PS_INLINE uint32_t ps_debug_switches(void) {
    uint32_t read = ps_load_relaxed(&ps_x_debug); /* relaxed: all threads store the same */
    return PS_LIKELY(read != 0) ? read : ps_debug_read();
}
PS_INLINE bool ps_debug_is_malloc(void) { return (ps_debug_switches() & PS_DEBUG_IS_MALLOC) != 0; }
PS_INLINE bool ps_debug_is_check(void) { return (ps_debug_switches() & PS_DEBUG_IS_CHECK) != 0; }
PS_INLINE bool ps_debug_is_leaks(void) { return (ps_debug_switches() & PS_DEBUG_IS_LEAKS) != 0; }

/* Prints "poolshim: <what> <pointer> in <pool>" and aborts. */
PS_NORETURN PS_COLD void ps_debug_misuse(const char *what, const void *pointer, const char *pool);

#endif
