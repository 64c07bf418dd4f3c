/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic on sizes and bit sets. Pure functions, no state, no locks; any layer may call them.
 */
#ifndef PS_BASE_BITS_H
#define PS_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ps_is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

/* n rounded up to a multiple of the power of two `unit`; wraps to a value below n on overflow. */
static inline size_t ps_round_up(size_t n, size_t unit) { return (n + unit - 1) & ~(unit - 1); }

static inline size_t ps_round_down(size_t n, size_t unit) { return n & ~(unit - 1); }

/* Index of the highest set bit; n must not be 0. By an exclusive or, not a difference: x86-64 makes
 * the zeros by one, which it then cancels. */
static inline unsigned ps_log2(size_t n) {
    return 63u ^ (unsigned)__builtin_clzll((unsigned long long)n);
}

static inline size_t ps_min(size_t a, size_t b) { return a < b ? a : b; }

static inline size_t ps_max(size_t a, size_t b) { return a > b ? a : b; }

/* 2^64 divided by the golden ratio: adjacent multiples of it differ in their high bits. */
#define PS_GOLDEN_64 UINT64_C(0x9e3779b97f4a7c15)

/* A number whose bits each depend on all bits of another: the finaliser of SplitMix64 (Steele, Lea,
 * Flood 2014). Its arguments are successive multiples of PS_GOLDEN_64 where a generator is wanted.
 */
static inline uint64_t ps_mix_64(uint64_t bits) {
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

#endif
