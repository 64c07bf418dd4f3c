/* SPDX-License-Identifier: MIT */
/*
 * Pages, threads and spin loops of 64-bit ARM.
 */

#define PS_PAGE_BYTES_LIMIT 65536
/* For thread-local data: ld.so opens no library by dlopen whose alignment is greater. */
#define PS_THREAD_LOCAL_ALIGNMENT 32

static inline uintptr_t ps_thread_pointer(void) { return (uintptr_t)__builtin_thread_pointer(); }

static inline void ps_cpu_relax(void) { __asm__ volatile("isb" ::: "memory"); }
