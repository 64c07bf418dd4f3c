/* SPDX-License-Identifier: MIT */
/*
 * Static probes (USDT) of OpenTelemetry's contract for memory profilers: otel_memory:alloc and
 * otel_memory:free. Each is a function of its own, at whose first instruction its arguments are in
 * the registers of the first arguments; a note of the library (.note.stapsdt) tells tracers where.
 * A tracer that attaches raises a semaphore in the memory of the process, by a breakpoint's
 * bookkeeping in the kernel or, as debuggers do, by a write. Without one a probe is a call of a
 * function that returns. Needs nothing at run time.
 *
 * Not all processors have probes: arch/. Any thread. No locks.
 */
#ifndef PS_OS_PROBE_H
#define PS_OS_PROBE_H

#include "pools/engine/base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers of attached tracers. The kernel and debuggers write. */
extern PS_HIDDEN uint16_t ps_probe_x_alloc_semaphore;
extern PS_HIDDEN uint16_t ps_probe_x_free_semaphore;

/* True while a tracer is attached to a probe. */
static inline bool ps_probe_is_attached(void) {
    /* relaxed, both: a moment later it may be otherwise. */
    return (ps_load_relaxed(&ps_probe_x_alloc_semaphore) |
            ps_load_relaxed(&ps_probe_x_free_semaphore)) != 0;
}

/* A sampled block of so many bytes, which represents weight_bytes allocated ones. */
void ps_probe_alloc(const void *block, uint64_t bytes, uint64_t weight_bytes);

/* A sampled block is about to be freed. */
void ps_probe_free(const void *block);

#endif
