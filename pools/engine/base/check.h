/* SPDX-License-Identifier: MIT */
/*
 * Assertions of checked builds. Release builds compile the condition but never evaluate it. A
 * failed check prints one line and aborts through ps_check_failed, which os/fatal.c implements, so
 * that base makes no system call.
 */
#ifndef PS_BASE_CHECK_H
#define PS_BASE_CHECK_H

#include "pools/engine/base/compiler.h"

PS_HOOK PS_NORETURN void ps_check_failed(const char *text);

#define PS_CHECK(condition)                                                                        \
    do {                                                                                           \
        if (PS_CHECKED && PS_UNLIKELY(!(condition))) {                                             \
            ps_check_failed("poolshim: check failed: " #condition "\n");                           \
        }                                                                                          \
    } while (0)

#endif
