/* SPDX-License-Identifier: MIT */
/*
 * Atomics with the memory order in the name. Macros, because they serve every integer and pointer
 * width. No other file uses the compiler's atomic builtins. Each use elsewhere has a comment that
 * says what it pairs with, or why relaxed is enough.
 */
#ifndef PS_BASE_ATOMIC_H
#define PS_BASE_ATOMIC_H

#include "pools/engine/base/compiler.h"

#include <stdint.h>

#define ps_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
/* A relaxed load of a value that is used once, in a sum or a comparison: the compiler may name the
 * memory in that instruction, which GCC never does for an atomic access. */
#if defined(__SANITIZE_THREAD__)
#define ps_load_once(p) ps_load_relaxed(p)
#else
#define ps_load_once(p) (*(p))
#endif
#define ps_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ps_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define ps_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ps_load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define ps_store_seq_cst(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define ps_exchange_seq_cst(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define ps_exchange_relaxed(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED)
#define ps_exchange_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define ps_exchange_release(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)
#define ps_exchange_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define ps_or_relaxed(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define ps_or_release(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELEASE)
#define ps_and_relaxed(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)
#define ps_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define ps_add_seq_cst(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)

/* Compare-and-swap; *expected receives the observed value on failure. Weak: may fail spuriously. */
#define ps_cas_strong_relaxed(p, expected, v)                                                      \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define ps_cas_strong_acquire(p, expected, v)                                                      \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define ps_cas_strong_acq_rel(p, expected, v)                                                      \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define ps_cas_strong_seq_cst(p, expected, v)                                                      \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define ps_cas_weak_relaxed(p, expected, v)                                                        \
    __atomic_compare_exchange_n((p), (expected), (v), 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define ps_cas_weak_release(p, expected, v)                                                        \
    __atomic_compare_exchange_n((p), (expected), (v), 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define ps_cas_weak_seq_cst(p, expected, v)                                                        \
    __atomic_compare_exchange_n((p), (expected), (v), 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
#define ps_cas_weak_acq_rel(p, expected, v)                                                        \
    __atomic_compare_exchange_n((p), (expected), (v), 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)

/*
 * Prevents the compiler from moving memory accesses across. Program order is enough for readers
 * that are signal handlers of the same thread, or the child of a fork: see undo.h.
 */
#define ps_fence_program_order() __asm__ volatile("" : : : "memory")

/* Stores before it are seen before stores after it, also by other processors. Not a fence of the
 * compiler's, which the thread sanitizer does not know, but tests/models/ does. */
#if defined(PS_EXPLORED)
#define ps_fence_stores() __atomic_thread_fence(__ATOMIC_RELEASE)
#else
#define ps_fence_stores() ps_arch_fence_stores()
#endif

/*
 * A counter with one writer, whose readers need a snapshot only: two relaxed moves instead of a
 * read-modify-write.
 */
#define ps_owner_add(p, v)                                                                         \
    __atomic_store_n((p), (__typeof__(*(p)))(*(p) + (__typeof__(*(p)))(v)), __ATOMIC_RELAXED)

#include PS_ARCH_PART(atomic.h)

#endif
