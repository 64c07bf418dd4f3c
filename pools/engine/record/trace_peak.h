/* SPDX-License-Identifier: MIT */
/*
 * The highest resident memory of the process so far, for the trace. Calls the kernel only. Any
 * thread; no locks. Caller: trace.c.
 */
#ifndef PS_RECORD_TRACE_PEAK_H
#define PS_RECORD_TRACE_PEAK_H

#include <stdint.h>

/* VmHWM in bytes; 0 when /proc cannot be read. Not ru_maxrss: that includes what the process was
 * before it executed its program. */
uint64_t ps_trace_peak_read(void);

#endif
