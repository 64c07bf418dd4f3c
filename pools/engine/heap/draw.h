/* SPDX-License-Identifier: MIT */
/*
 * Random draws for sampling, and the weights of samples. Callers: profile/, harden/guard.c. Any
 * thread, each with a generator of its own. No locks.
 */
#ifndef PS_HEAP_DRAW_H
#define PS_HEAP_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* The next random bits of a generator, whose state may be any. */
uint64_t ps_draw_bits(uint64_t *state);

/* An exponentially distributed number with mean 1, from 64 random bits. */
double ps_draw_exponential(uint64_t bits);

/* A sample of a block of so many bytes represents this many blocks, in units of
 * 1/PS_DRAW_WEIGHT_ONE. */
#define PS_DRAW_WEIGHT_ONE 65536
uint64_t ps_draw_weight(size_t bytes, size_t interval_bytes);

/* The nearest number of blocks. */
static inline uint64_t ps_draw_blocks(uint64_t weight) {
    return (weight + PS_DRAW_WEIGHT_ONE / 2) / PS_DRAW_WEIGHT_ONE;
}

/* The bytes that so many blocks have, rounded. */
uint64_t ps_draw_weighted(uint64_t weight, size_t bytes);

/* Bytes to the next point of a Poisson process of this mean. */
int64_t ps_draw_bytes(uint64_t *state, size_t interval_bytes);

/* The number of the trial that succeeds first, where one in `period` does. */
int64_t ps_draw_trials(uint64_t *state, uint32_t period);

#endif
