/* SPDX-License-Identifier: MIT */
/*
 * Pages, threads and spin loops of x86-64.
 */

#define PS_PAGE_BYTES_LIMIT 4096
/* For thread-local data: a cache line. */
#define PS_THREAD_LOCAL_ALIGNMENT 64

/* gcc has the builtin from version 11 on; the psABI has the same word at offset 0 of the thread's
 * own memory. */
static inline uintptr_t ps_thread_pointer(void) {
    uintptr_t pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

static inline void ps_cpu_relax(void) { __builtin_ia32_pause(); }
