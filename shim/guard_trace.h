/* SPDX-License-Identifier: MIT */
/*
 * Traces for guarded samples and for the profile, by walks of unwind.h, which a constructor
 * prepares, since a profile may be asked for at any time; no trace is taken before. Callers:
 * shim/profile_trace.c. Any thread; no locks of its own.
 */
#ifndef PS_SHIM_GUARD_TRACE_H
#define PS_SHIM_GUARD_TRACE_H

#include "shim/unwind.h"

#include <stdbool.h>
#include <stdint.h>

/* True once traces may be taken. */
bool ps_trace_is_ready(void);

/* Walks to the first site of the program, beyond the frames of this library; or to an interrupted
 * instruction, where that is not 0. Returns the site, of walk->object; 0: there is none. */
uintptr_t ps_trace_first(struct ps_unwind *walk, uintptr_t instruction);

#endif
