/* SPDX-License-Identifier: MIT */
/*
 * Atomics that the project does not have, for planted faults: included before the source that has
 * one. Their orders are weaker than the code needs.
 */
#ifndef WEAKER_H
#define WEAKER_H

#define ps_cas_weak_acquire(p, expected, v)                                                        \
    __atomic_compare_exchange_n((p), (expected), (v), 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define ps_cas_strong_relaxed(p, expected, v)                                                      \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define ps_exchange_relaxed(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED)

#endif
