/* SPDX-License-Identifier: MIT */
/*
 * When the next sample is due: the random draws that countdowns start from, and the countdown of a
 * heap for blocks above the classes. Requests of classes are counted by the thread, in
 * heap/front_path.c.
 *
 * Samples are the points of a Poisson process over allocated bytes. Each countdown has a process of
 * its own, since independent ones add up to one. Owner of the heap only. No locks.
 */
#ifndef PS_PROFILE_COUNTDOWN_H
#define PS_PROFILE_COUNTDOWN_H

#include "pools/engine/heap/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random draws, and the weights of samples; any thread ---- */

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

/* ---- countdowns ---- */

/* mode_state of a heap. */
struct ps_countdowns {
    uint64_t random;       /* state of the generator */
    size_t interval_bytes; /* the mean of the draws, and the bytes that a sample represents */
    uint32_t epoch;        /* of demand.h, in which they count */
    int64_t left_bytes;    /* of blocks above the classes: until the next sample */
    bool is_inside;        /* no stack may be taken: one is being taken, or the heap is shared */
};

/* The countdown of a heap while allocations are sampled, created at the first call, anew in each
 * epoch. NULL: they are not, or memory is exhausted. */
struct ps_countdowns *ps_countdowns_of(struct ps_heap *heap);

/* Draws the distance to the next sample. */
void ps_countdown_draw_bytes(struct ps_countdowns *all);

#endif
