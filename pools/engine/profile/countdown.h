/* SPDX-License-Identifier: MIT */
/*
 * When the next sample is due: countdowns for each class in a heap, and the random draws that they
 * start from.
 *
 * Samples are the points of a Poisson process over allocated bytes. Each class of each heap has a
 * process of its own, since independent ones add up to one: the distance to the next point is drawn
 * in bytes and turned into a number of blocks. The fast path of malloc does not count. Instead a
 * bin never has more blocks than the countdown permits:
 *
 *   blocks in the bin + frees until the next event of its source <= left
 *
 * so that the sampled allocation, and no earlier one, finds the bin empty and is served by the
 * refill hook. While `left` is large this constrains nothing. Near the sample the bin is cut to
 * half of `left`, and the event that counts is brought forward; each time `left` halves, this
 * is repeated: a logarithmic number of slow calls per sample.
 *
 * The equation is restored, and allocations are counted, at every event that changes a bin's source
 * outside of the fast path; those are the hooks in profile.c. Owner of the heap only. No locks.
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

/* ---- countdowns ---- */

struct ps_countdown {
    int64_t left; /* blocks up to the sampled one, which is included; 0: not drawn yet */
    char *cursor; /* of the bin's window, up to which its blocks are counted; NULL: none */
};

/* mode_state of a heap. */
struct ps_countdowns {
    uint64_t random;       /* state of the generator */
    size_t interval_bytes; /* the mean of the draws, and the bytes that a sample represents */
    uint32_t epoch;        /* of demand.h, in which they count */
    int64_t left_bytes;    /* of blocks above the classes: until the next sample */
    bool is_inside;        /* no stack may be taken: one is being taken, or the heap is shared */
    struct ps_countdown classes[PS_CLASS_LIMIT];
};

/* The countdowns of a heap while allocations are sampled, created at the first call, anew in each
 * epoch. NULL: they are not, or memory is exhausted. */
struct ps_countdowns *ps_countdowns_of(struct ps_heap *heap);

/* Those that count already; NULL: there are none in this epoch. */
struct ps_countdowns *ps_countdowns_begun(const struct ps_heap *heap);

/* Draws the distance to the next sample. */
void ps_countdown_draw(struct ps_countdowns *all, uint32_t class_index);
void ps_countdown_draw_bytes(struct ps_countdowns *all);

/* Counts the blocks of a class that malloc has taken since the last call, and settles its source.
 */
void ps_countdown_settle(struct ps_heap *heap, struct ps_countdowns *all, uint32_t class_index);

/* Counts pops that the settling of a source has found. */
void ps_countdown_pops(struct ps_countdowns *all, uint32_t class_index, int64_t popped);

/* The bin of a class has got another window, or is about to lose it. */
void ps_countdown_set_window(struct ps_countdowns *all, uint32_t class_index, char *cursor);

/* Restores the equation. Precondition: the source of the class is settled. */
void ps_countdown_bound(struct ps_heap *heap, struct ps_countdowns *all, uint32_t class_index);

#endif
