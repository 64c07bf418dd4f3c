/* SPDX-License-Identifier: MIT */
/*
 * The bits of a chunk of an ordered pool, 1: the object is free. Three levels: a bit of a higher
 * one says that a word of 64 below is not zero, so that the lowest free object is found in a few
 * steps. Pure data, changed by map.c only; no locks.
 *
 *   bits of objects that were never carved are 0
 *   chunk.free_count == number of ones in bits
 */
#ifndef PS_POOL_BITMAP_H
#define PS_POOL_BITMAP_H

#include "pools/pool/pool.h"

struct ps_pool_map {
    struct ps_pool_chunk chunk;
    uint64_t *bits;
    uint64_t *middle;
    uint64_t *top;
    size_t top_count;
    size_t run_bound; /* no more neighbours than this are free, as far as the last search saw */
    uint64_t *inner;  /* checks: 1: belongs to the array that begins before it. Else NULL */
};

static inline uint64_t ps_pool_bit(size_t index) { return (uint64_t)1 << (index & 63); }

/* The `count` ones from bit `first` of a word on, as many as fit. */
static inline uint64_t ps_pool_mask(size_t first, size_t count) {
    return (count >= 64 ? ~(uint64_t)0 : ps_pool_bit(count) - 1) << first;
}

/* Sets `mask`, not 0, in word `word`; its ones were zeros. */
static inline void ps_pool_bits_set(struct ps_pool_map *map, size_t word, uint64_t mask) {
    uint64_t before = map->bits[word];
    map->bits[word] = before | mask;
    if (before == 0) {
        map->middle[word >> 6] |= ps_pool_bit(word);
        map->top[word >> 12] |= ps_pool_bit(word >> 6);
    }
}

static inline void ps_pool_bits_clear(struct ps_pool_map *map, size_t word, uint64_t mask) {
    if ((map->bits[word] &= ~mask) == 0 && (map->middle[word >> 6] &= ~ps_pool_bit(word)) == 0) {
        map->top[word >> 12] &= ~ps_pool_bit(word >> 6);
    }
}

/* The lowest word that is not 0; there is one. */
static inline size_t ps_pool_bits_lowest(const struct ps_pool_map *map) {
    size_t top = 0;
    while (map->top[top] == 0) { /* ends: there is one; 2^18 objects a step */
        top++;
    }
    size_t middle = (top << 6) + (size_t)__builtin_ctzll(map->top[top]);
    return (middle << 6) + (size_t)__builtin_ctzll(map->middle[middle]);
}

#define PS_POOL_NO_RUN SIZE_MAX

/* The lowest `count` neighbours whose bits are set: the index of the first, or PS_POOL_NO_RUN. */
size_t ps_pool_bits_find_run(const struct ps_pool_map *map, size_t count);

#endif
