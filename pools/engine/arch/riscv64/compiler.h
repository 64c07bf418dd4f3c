/* SPDX-License-Identifier: MIT */
/*
 * Pages, threads and spin loops of RISC-V.
 */

#define PS_PAGE_BYTES_LIMIT 4096
/* For thread-local data: ld.so opens no library by dlopen whose alignment is greater. */
#define PS_THREAD_LOCAL_ALIGNMENT 32

static inline uintptr_t ps_thread_pointer(void) { return (uintptr_t)__builtin_thread_pointer(); }

/* Its hint is an extension, which not all processors have. */
static inline void ps_cpu_relax(void) { __asm__ volatile("" ::: "memory"); }
