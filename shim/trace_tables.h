/* SPDX-License-Identifier: MIT */
/*
 * The tables of unwinding, which few programs read, and a trace reads at each call. Allocates
 * nothing. No locks. Caller: trace.c, at the end of the process.
 */
#ifndef PS_SHIM_TRACE_TABLES_H
#define PS_SHIM_TRACE_TABLES_H

#include <stdint.h>

/* Resident bytes of the tables of all loaded files. maps: the text of /proc/self/maps. 0 where the
 * kernel does not tell. */
uint64_t ps_trace_tables_resident(const char *maps);

#endif
