/* SPDX-License-Identifier: MIT */
/*
 * Small, fast, repeatable random numbers (splitmix64). The state belongs to one thread; no locks.
 */
#ifndef PS_STRESS_RANDOM_H
#define PS_STRESS_RANDOM_H

#include <stdint.h>

struct random_state {
    uint64_t value;
};

static inline uint64_t random_next(struct random_state *state) {
    uint64_t mixed = state->value += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* 0 <= result < limit; limit below 2^32. */
static inline uint32_t random_below(struct random_state *state, uint32_t limit) {
    return (uint32_t)(((random_next(state) >> 32) * limit) >> 32);
}

/* lowest <= result <= highest, each doubling equally likely; lowest at least 1. */
static inline uint64_t random_log_uniform(struct random_state *state, uint64_t lowest,
                                          uint64_t highest) {
    unsigned low_bits = 63 - (unsigned)__builtin_clzll(lowest);
    unsigned high_bits = 63 - (unsigned)__builtin_clzll(highest);
    unsigned bits = low_bits + random_below(state, high_bits - low_bits + 1);
    uint64_t value = ((uint64_t)1 << bits) + (random_next(state) & (((uint64_t)1 << bits) - 1));
    value = value < lowest ? lowest : value;
    return value > highest ? highest : value;
}

#endif
