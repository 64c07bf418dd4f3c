/* SPDX-License-Identifier: MIT */
/*
 * A child that shares the memory of its parent, which is suspended meanwhile: that of vfork. It has
 * the parent's area for restartable sequences (rseq.h), but the kernel does not register it: it
 * neither updates the area nor aborts a sequence, which would then run beside those of another
 * processor's threads.
 *
 * So the child writes PS_RSEQ_NO_CPU into the area, as in that of an unregistered thread. Each
 * sequence compares the processor and fails, libc's sched_getcpu asks the system, and the heap
 * proceeds as where a cache has neither room nor a block. The parent restores the number, unless
 * the kernel has: it writes both numbers when the thread was moved, some versions whenever it was
 * preempted. A child of such a child finds PS_RSEQ_NO_CPU, and neither of the two writes.
 *
 * A kernel that checks its numbers (rseq_debug, for development) would end the process.
 *
 * Callers: shim/vfork.c. Owns nothing. No locks.
 */
#ifndef PS_OS_VFORK_H
#define PS_OS_VFORK_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/rseq.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The compiler does not see that code in assembly language calls it. */
#define PS_USED __attribute__((used))

#define PS_RSEQ_NO_CPU ((uint32_t)-1)

/* The beginning of an area, which the kernel writes. */
struct ps_rseq_area {
    uint32_t x_cpu_start; /* the processor, whether or not the child has written the next */
    uint32_t x_cpu;       /* the processor, or a number that is negative if it were signed */
};

/* The result of the function that vfork calls first, in two registers. */
struct ps_vfork_way {
    struct ps_rseq_area *area; /* as ps_rseq_area */
    int (*elsewhere)(void);    /* if not NULL, continue there: no thread has an area */
};

/* A function that has work to do where threads have areas is exported there. */
#if PS_HAS_RSEQ
#define PS_RSEQ_EXPORT __attribute__((visibility("default")))
#define PS_RSEQ_EXPORT_ALIAS(name, target)                                                         \
    extern __typeof__(target) name PS_RSEQ_EXPORT __attribute__((alias(#target))) PS_COPY(target);
#include PS_ARCH_PART(vfork.h)
#else
#define PS_RSEQ_EXPORT PS_HIDDEN
#define PS_RSEQ_EXPORT_ALIAS(name, target)
#include "pools/engine/arch/generic/vfork.h"
#endif

/* The area of the calling thread; NULL if it is not registered. */
static inline struct ps_rseq_area *ps_rseq_area(void) {
    if (!ps_rseq_is_on()) {
        return NULL;
    }
    struct ps_rseq_area *area =
        (struct ps_rseq_area *)(ps_thread_pointer() + (uintptr_t)ps_rseq_offset);
    return (int32_t)ps_load_relaxed(&area->x_cpu) >= 0 ? area : NULL; /* relaxed: one thread's */
}

/* In the child, before all else. area: of its parent, before the call. */
static inline void ps_rseq_suspend(struct ps_rseq_area *area) {
    ps_store_relaxed(&area->x_cpu, PS_RSEQ_NO_CPU); /* relaxed: the parent stands still */
}

#endif
