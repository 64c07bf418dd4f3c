/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences (rseq(2), Linux 4.18): a few instructions that the kernel aborts when their
 * thread is preempted, migrates to another processor or gets a signal among them. glibc registers
 * each thread for them from version 2.35 on.
 *
 * The sequences are those of fronts: PS_ARCH_PART(front.h).
 *
 * The child of vfork has the area of its parent, but is not registered: vfork.h.
 *
 * On x86-64 and 64-bit ARM. Elsewhere, and where threads are not registered, ps_rseq_offset is 0
 * for good.
 */
#ifndef PS_OS_RSEQ_H
#define PS_OS_RSEQ_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sanitizers and the models' explorer know nothing of sequences. */
#if defined(__SANITIZE_THREAD__) || defined(PS_EXPLORED)
#include "pools/engine/arch/generic/rseq.h"
#else
#include PS_ARCH_PART(rseq.h)
#endif

/* From a thread's pointer to its area, which the kernel writes; 0: no thread is registered. Set
 * once, by ps_rseq_start. */
extern PS_HIDDEN ptrdiff_t ps_rseq_offset;

static inline bool ps_rseq_is_on(void) { return PS_HAS_RSEQ && ps_rseq_offset != 0; }

/* Called once, with the engine. */
void ps_rseq_start(void);

/* From a thread's pointer to the number by which it finds a front (front/front.h): its concurrency
 * id, or that of the processor where the kernel has none; 0: no thread is registered. */
ptrdiff_t ps_rseq_id_offset(void);

#endif
