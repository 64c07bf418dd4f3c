/* SPDX-License-Identifier: MIT */
/*
 * The random draws of the profile: when the next sample is due, and how much it represents. Each
 * thread counts its requests down, in heap/front_path.c.
 *
 * Samples are the points of a Poisson process over requested bytes. Each thread has a process of
 * its own, since independent ones add up to one. Any thread. No locks.
 */
#ifndef PS_PROFILE_DRAW_H
#define PS_PROFILE_DRAW_H

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

/* The bytes that so many blocks have, rounded. */
uint64_t ps_draw_weighted(uint64_t weight, size_t bytes);

/* Bytes to the next point of a process of this mean. *random: the state of a generator; 0: it is to
 * begin. */
int64_t ps_profile_draw(uint64_t *random, size_t interval_bytes);

#endif
