/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences of x86-64.
 */

#define PS_HAS_RSEQ 1

/* The processor that runs the calling thread, which may be another one a moment later. Above all
 * processors for a thread that is not registered. offset: ps_rseq_offset, not 0. */
PS_INLINE uint32_t ps_rseq_cpu(ptrdiff_t offset) {
    uint32_t cpu;
    __asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(offset));
    return cpu;
}
