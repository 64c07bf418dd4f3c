/* SPDX-License-Identifier: MIT */
/*
 * Pages, threads and spin loops of 64-bit ARM.
 */

#define PS_PAGE_BYTES_LIMIT 65536

static inline uintptr_t ps_thread_pointer(void) { return (uintptr_t)__builtin_thread_pointer(); }

static inline void ps_cpu_relax(void) { __asm__ volatile("isb" ::: "memory"); }
