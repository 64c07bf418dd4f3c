/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences of 64-bit ARM.
 */

#define PS_HAS_RSEQ 1

/* The processor that runs the calling thread, which may be another one a moment later. Above all
 * processors for a thread that is not registered. offset: ps_rseq_offset, not 0. */
PS_INLINE uint32_t ps_rseq_cpu(ptrdiff_t offset) {
    uint32_t cpu;
    __asm__ volatile("ldr %w0, [%1, #4]"
                     : "=r"(cpu)
                     : "r"(ps_thread_pointer() + (uintptr_t)offset));
    return cpu;
}
