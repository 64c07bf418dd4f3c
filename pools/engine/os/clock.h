/* SPDX-License-Identifier: MIT */
/*
 * Clocks: the system's, read by the kernel's code in the process, without libc, and the engine's,
 * which go on where the system's goes backward. Called by os_linux.c and by the reports of shim/.
 * No locks; any thread. Preserves errno.
 */
#ifndef PS_OS_CLOCK_H
#define PS_OS_CLOCK_H

#include "pools/engine/base/compiler.h"

#include <stdint.h>
#include <time.h>

/* Reads a clock of the system; zero where it has none of that number. */
void ps_clock_read(clockid_t id, struct timespec *out);

/*
 * A clock that never goes backward. CLOCK_MONOTONIC does when a process enters another time
 * namespace, or is restored from a checkpoint on another machine: timers by it would then be late
 * until the clock has caught up, which may take weeks.
 *
 * x_last: the latest time. x_offset: the correction of the system's time, the sum of all steps
 * backward so far. Zeroed memory is a clock; its unit is the reader's.
 */
struct ps_clock {
    uint64_t x_last;
    uint64_t x_offset;
};

/* Reads the system's clock, in the unit of a struct ps_clock. */
typedef uint64_t ps_clock_reader(void);

/* The time, at least any that a call has returned before; a step backward of the reader counts as
 * no time. */
uint64_t ps_clock_steady(struct ps_clock *clock, ps_clock_reader *reader);

#endif
