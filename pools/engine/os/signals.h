/* SPDX-License-Identifier: MIT */
/*
 * Signals by system calls. libc's functions may be interposed, leave the two signals out of each
 * set by which it cancels threads, and may be points of cancellation. Called by fatal.c,
 * background.c and the reports of shim/. No locks; any thread. Preserves errno.
 */
#ifndef PS_OS_SIGNALS_H
#define PS_OS_SIGNALS_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

/* A set of signals. */
#define PS_SIGNAL_BIT(number) ((uint64_t)1 << ((number)-1))
#define PS_SIGNALS_ALL UINT64_MAX

/* All but those that libc sends its threads: from 32 on. */
#if defined(__GLIBC__)
#define PS_SIGNALS_OF_PROGRAM (~((uint64_t)3 << 31))
#else
#define PS_SIGNALS_OF_PROGRAM (~((uint64_t)7 << 31)) /* musl: three */
#endif

/* Adds to the blocked signals of the calling thread; returns those that were blocked before. */
uint64_t ps_signals_block(uint64_t set);
void ps_signals_unblock(uint64_t set);
void ps_signals_set_blocked(uint64_t set);

/* The signals that are pending for the thread or the process. */
uint64_t ps_signals_pending(void);

/* Removes a pending signal, which is blocked. */
void ps_signals_consume(int number);

/* Sends a signal to the calling thread. */
void ps_signals_raise(int number);

/*
 * As abort: SIGABRT, and its default action if a handler returns. Runs the program's handler, but
 * no abort that it interposes.
 */
PS_NORETURN void ps_signals_abort(void);

/* An action as the kernel has it. `restorer`, where a processor has one, is the code to which the
 * handler returns; ps_signals_set_action fills it in. */
#include PS_ARCH_PART(signals.h)

/* Both return false, and change nothing, where the system refuses. */
bool ps_signals_action(int number, struct ps_signal_action *out);
bool ps_signals_set_action(int number, struct ps_signal_action action);

#endif
