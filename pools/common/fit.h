/* SPDX-License-Identifier: MIT */
/*
 * Common parts of allocators for blocks of any size, whether they link blocks by pointer (tlsf/) or
 * by offset (offset_heap.h): the head of a block, the classes of sizes, the index of the classes
 * that have a free block. Pure functions and one struct, no locks.
 *
 *   head == tag | size in bytes with the head, a multiple of 16 | FREE | PREVIOUS_FREE
 *   bit w of `summary` is set <=> bits[w] != 0
 *
 * After: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a new dynamic memory allocator for
 * real-time systems", ECRTS 2004; both levels of the index are one row of classes.
 *
 * An arena's file contains heads and index in this format: changing them requires a new
 * ARENA_VERSION.
 */
#ifndef PS_COMMON_FIT_H
#define PS_COMMON_FIT_H

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_FIT_FREE = 1,
    PS_FIT_PREVIOUS_FREE = 2,
    PS_FIT_UNIT = 16,
    PS_FIT_HEAD = sizeof(size_t),
    PS_FIT_MIN = 32, /* head, two links, and at the end the place of the head */
    PS_FIT_TAG_SHIFT = 48,
    PS_FIT_LARGEST_SHIFT = 46,
    PS_FIT_CLASS_SHIFT = 5,  /* 32 classes for each power of two */
    PS_FIT_LINEAR_SHIFT = 9, /* below 2 to this, and one power above: one for each 16 bytes */
    PS_FIT_CLASSES = (PS_FIT_LARGEST_SHIFT - PS_FIT_LINEAR_SHIFT + 2) << PS_FIT_CLASS_SHIFT,
    PS_FIT_WORDS = (PS_FIT_CLASSES + 63) / 64,
    PS_FIT_NEAR_MAX = 4, /* blocks tried in a request's own class before it fails */
};

#define PS_FIT_NONE (~(size_t)0)
#define PS_FIT_TAG_MASK (~(size_t)0 << PS_FIT_TAG_SHIFT)
#define PS_FIT_SIZE_MASK (~PS_FIT_TAG_MASK & ~(size_t)(PS_FIT_UNIT - 1))

struct ps_fit_index {
    uint64_t summary;
    uint64_t bits[PS_FIT_WORDS]; /* one per class */
};

/* Size of a block with its head. */
static inline size_t ps_fit_bytes(size_t head) { return head & PS_FIT_SIZE_MASK; }

/* Block size for a request; the caller has checked for overflow. */
static inline size_t ps_fit_bytes_for(size_t bytes) {
    size_t size = (bytes + PS_FIT_HEAD + PS_FIT_UNIT - 1) & ~(size_t)(PS_FIT_UNIT - 1);
    return size < PS_FIT_MIN ? PS_FIT_MIN : size;
}

/* Distance from a free block's payload to the next aligned payload, with room for a free block in
 * between, or none at all. */
static inline size_t ps_fit_gap(size_t payload, size_t align) {
    size_t gap = ps_round_up(payload, align) - payload;
    return gap == PS_FIT_UNIT ? gap + align : gap;
}

/* The class of a size, which is at least its lower bound. Below 1024 a class is one size, above it
 * is 1/32 of a power of two. */
static inline size_t ps_fit_class_of(size_t size) {
    unsigned power = ps_log2(size | (size_t)1 << PS_FIT_LINEAR_SHIFT);
    return ((size_t)(power - PS_FIT_LINEAR_SHIFT) << PS_FIT_CLASS_SHIFT) +
           (size >> (power - PS_FIT_CLASS_SHIFT));
}

/* The first class whose blocks all have at least this size: the one after the last that has a
 * shorter one. */
static inline size_t ps_fit_class_from(size_t size) { return ps_fit_class_of(size - 1) + 1; }

/* The smallest size of a class. */
static inline size_t ps_fit_least_of(size_t class) {
    size_t row = class >> PS_FIT_CLASS_SHIFT;
    size_t above = class & (((size_t)1 << PS_FIT_CLASS_SHIFT) - 1);
    size_t unit = PS_FIT_LINEAR_SHIFT - PS_FIT_CLASS_SHIFT;
    return row == 0 ? above << unit : (above | (size_t)1 << PS_FIT_CLASS_SHIFT) << (row - 1 + unit);
}

static inline bool ps_fit_has(const struct ps_fit_index *index, size_t class) {
    return (index->bits[class / 64] >> (class % 64) & 1) != 0;
}

/* A bit changes in a register, by one instruction. */
static inline void ps_fit_set(struct ps_fit_index *index, size_t class) {
    uint64_t word = index->bits[class / 64];
    uint64_t summary = index->summary;
    word |= (uint64_t)1 << (class % 64);
    summary |= (uint64_t)1 << (class / 64);
    index->bits[class / 64] = word;
    index->summary = summary;
}

static inline void ps_fit_clear(struct ps_fit_index *index, size_t class) {
    uint64_t word = index->bits[class / 64];
    word &= ~((uint64_t)1 << (class % 64));
    index->bits[class / 64] = word;
    if (word == 0) {
        index->summary &= ~((uint64_t)1 << (class / 64));
    }
}

/* The first class from this one on with a block; PS_FIT_NONE if there is none. */
static inline size_t ps_fit_find(const struct ps_fit_index *index, size_t class) {
    size_t word = class / 64;
    uint64_t found = index->bits[word] >> (class % 64);
    if (found != 0) {
        return class + (unsigned)__builtin_ctzll(found);
    }
    uint64_t above = index->summary & (~(uint64_t)1 << word);
    if (above == 0) {
        return PS_FIT_NONE;
    }
    word = (unsigned)__builtin_ctzll(above);
    return word * 64 + (unsigned)__builtin_ctzll(index->bits[word]);
}

/* True when the equation at the top is satisfied. */
static inline bool ps_fit_check(const struct ps_fit_index *index) {
    for (size_t word = 0; word < PS_FIT_WORDS; word++) {
        if ((index->summary >> word & 1) != (index->bits[word] != 0)) {
            return false;
        }
    }
    return true;
}

#endif
