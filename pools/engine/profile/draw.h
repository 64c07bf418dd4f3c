/* SPDX-License-Identifier: MIT */
/*
 * Random numbers for sampling, and what a sample stands for. Any thread. No locks.
 */
#ifndef PS_PROFILE_DRAW_H
#define PS_PROFILE_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* The next random bits of a generator, whose state may be any. */
uint64_t ps_draw_bits(uint64_t *state);

/* An exponentially distributed number with mean 1, from 64 random bits. */
double ps_draw_exponential(uint64_t bits);

/* A sample of a block of so many bytes stands for this many blocks, in units of
 * 1/PS_DRAW_WEIGHT_ONE. */
#define PS_DRAW_WEIGHT_ONE 65536
uint64_t ps_draw_weight(size_t bytes, size_t interval_bytes);

#endif
