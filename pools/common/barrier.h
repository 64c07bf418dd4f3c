/* SPDX-License-Identifier: MIT */
/*
 * A barrier in all threads at once, by the kernel: a path that is taken often goes without one, and
 * the rare other side pays for both. No locks. Callers: retire/.
 */
#ifndef PS_COMMON_BARRIER_H
#define PS_COMMON_BARRIER_H

#include <stdbool.h>

/* True when ps_barrier_everywhere works in this process. One system call and no state: any thread,
 * any number of times. */
bool ps_barrier_is_available(void);

/*
 * A full barrier in the calling thread, and, between the call and its return, one in each other
 * thread of the process. False: the system has refused, and there was none. Some microseconds.
 */
bool ps_barrier_everywhere(void);

#endif
