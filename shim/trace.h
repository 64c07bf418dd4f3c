/* SPDX-License-Identifier: MIT */
/*
 * The file of POOLSHIM_TRACE, which the engine fills while the program runs (record/trace.h): maps
 * it, and adds the process's mappings at the end, without which addresses have no names. Allocates
 * nothing, uses no stdio. No locks.
 */
#ifndef PS_SHIM_TRACE_H
#define PS_SHIM_TRACE_H

#include "pools/engine/base/config.h"

/* Called by the engine's hook, after ps_shim_configure, under the initialisation lock. */
void ps_trace_open(struct ps_config *config);

/* Once each, from the library's constructor and destructor. They preserve errno. */
void ps_trace_at_start(void);
void ps_trace_at_exit(void);

#endif
