/* SPDX-License-Identifier: MIT */
/*
 * Sets of the pages of a region (medium.h), as bits: [from, to) are page numbers. Pure functions
 * on four words. Callers: medium.c, medium_purge.c.
 */
#ifndef PS_PAGE_PAGE_BITS_H
#define PS_PAGE_PAGE_BITS_H

#include "pools/engine/base/bits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_PAGE_BITS 256
#define PS_PAGE_BIT_WORDS (PS_PAGE_BITS / 64)

/* The first number at or after `from` whose bit, exclusive or flip's, is set; 64 x words: none. */
static inline size_t ps_bits_next(const uint64_t *bits, size_t words, size_t from, uint64_t flip) {
    for (size_t index = from / 64; index < words; index++) {
        uint64_t word = bits[index] ^ flip;
        if (index == from / 64) {
            word &= ~(uint64_t)0 << (from % 64);
        }
        if (word != 0) {
            return index * 64 + (size_t)__builtin_ctzll(word);
        }
    }
    return words * 64;
}

static inline size_t ps_pages_next_clear(const uint64_t *bits, size_t from) {
    return ps_bits_next(bits, PS_PAGE_BIT_WORDS, from, ~(uint64_t)0);
}

/* First bit of the sequence of set bits that ends before `end`; `end` where there is none. */
static inline size_t ps_pages_begin(const uint64_t *bits, size_t end) {
    while (end > 0) {
        size_t low = (end - 1) / 64 * 64;
        uint64_t clear = ~bits[low / 64] << (63 - (end - 1) % 64); /* end - 1 is its highest bit */
        size_t ones = clear != 0 ? (size_t)__builtin_clzll(clear) : 64;
        if (ones < end - low) {
            return end - ones;
        }
        end = low;
    }
    return 0;
}

/* The bits of word `index` for [from, to); the range overlaps that word. */
static inline uint64_t ps_pages_mask(size_t index, size_t from, size_t to) {
    size_t begin = ps_max(from, index * 64) - index * 64;
    size_t end = ps_min(to, index * 64 + 64) - index * 64;
    return (~(uint64_t)0 >> (64 - (end - begin))) << begin;
}

/* A walk over the sequences of set bits, the lowest first: the current one is [from, to). */
struct ps_pages_walk {
    const uint64_t *bits;
    size_t index;
    uint64_t rest; /* of the word at index: the bits that follow the current sequence */
    size_t from;
    size_t to;
};

static inline struct ps_pages_walk ps_pages_walk_start(const uint64_t *bits) {
    return (struct ps_pages_walk){.bits = bits, .rest = bits[0]};
}

/* Advances to the next sequence. Returns false after the last one. */
static inline bool ps_pages_walk_next(struct ps_pages_walk *walk) {
    while (walk->rest == 0) {
        if (++walk->index >= PS_PAGE_BIT_WORDS) {
            return false;
        }
        walk->rest = walk->bits[walk->index];
    }
    walk->from = walk->index * 64 + (size_t)__builtin_ctzll(walk->rest);
    /* The carry clears the sequence, and sets the bit after it. */
    uint64_t carried = walk->rest + (walk->rest & -walk->rest);
    if (carried != 0) {
        walk->to = walk->index * 64 + (size_t)__builtin_ctzll(carried);
        walk->rest &= carried;
        return true;
    }
    walk->to = ps_pages_next_clear(walk->bits, walk->index * 64 + 64);
    walk->index = walk->to / 64;
    walk->rest =
        walk->to < PS_PAGE_BITS ? walk->bits[walk->index] & ~(uint64_t)0 << walk->to % 64 : 0;
    return true;
}

/* The length of the longest sequence of set bits. */
static inline size_t ps_pages_longest(const uint64_t *bits) {
    size_t longest = 0;
    for (struct ps_pages_walk walk = ps_pages_walk_start(bits); ps_pages_walk_next(&walk);) {
        longest = ps_max(longest, walk.to - walk.from);
    }
    return longest;
}

#endif
