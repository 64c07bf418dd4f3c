/* SPDX-License-Identifier: MIT */
/*
 * Finds free neighbours, a word at a time. Called by map.c. No locks.
 */
#include "pools/pool/bitmap.h"

/* The ones of the result are where `count` ones begin in the word. Each step doubles the known
 * length: each remaining bit begins 2, 4, 8, .. ones. */
static uint64_t starts_of_runs(uint64_t word, size_t count) {
    size_t length = 1;
    while (length < count && word != 0) {
        size_t step = ps_min(length, count - length);
        word &= word >> step;
        length += step;
    }
    return word;
}

size_t ps_pool_bits_find_run(const struct ps_pool_map *map, size_t count) {
    size_t word_count = (map->chunk.carved + 63) / 64;
    size_t ending = 0; /* ones that end at the last bit of the word before */
    for (size_t word = ps_pool_bits_lowest(map); word < word_count; word++) {
        uint64_t ones = map->bits[word];
        if (ones == 0) {
            ending = 0;
            continue;
        }
        size_t leading = ~ones == 0 ? 64 : (size_t)__builtin_ctzll(~ones);
        if (ending + leading >= count) {
            return word * 64 - ending;
        }
        uint64_t starts = count <= 64 ? starts_of_runs(ones, count) : 0;
        if (starts != 0) {
            return word * 64 + (size_t)__builtin_ctzll(starts);
        }
        ending = ~ones == 0 ? ending + 64 : (size_t)__builtin_clzll(~ones);
    }
    return PS_POOL_NO_RUN;
}
