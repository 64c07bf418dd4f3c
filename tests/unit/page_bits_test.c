/* SPDX-License-Identifier: MIT */
/* Sets of pages as bits, against loops over single ones. */
#include "pools/engine/page/page_bits.h"

#include "tests/unit/unit.h"

static uint64_t bits[PS_PAGE_BIT_WORDS];

static bool is_set(size_t i) { return ((bits[i / 64] >> i % 64) & 1) != 0; }

static void fill_at_random(unsigned density) {
    for (size_t i = 0; i < PS_PAGE_BITS; i++) {
        uint64_t bit = (uint64_t)1 << i % 64;
        if (unit_random() % 100 < density) {
            bits[i / 64] |= bit;
        } else {
            bits[i / 64] &= ~bit;
        }
    }
}

static size_t next(size_t from, bool wanted) {
    while (from < PS_PAGE_BITS && is_set(from) != wanted) {
        from++;
    }
    return from;
}

static void check_neighbours(void) {
    for (size_t i = 0; i < PS_PAGE_BITS; i++) {
        CHECK_EQ(ps_pages_next_clear(bits, i), next(i, false));
        size_t begin = i;
        while (begin > 0 && is_set(begin - 1)) {
            begin--;
        }
        CHECK_EQ(ps_pages_begin(bits, i), begin);
    }
}

static void check_sequences(void) {
    size_t longest = 0;
    struct ps_pages_walk walk = ps_pages_walk_start(bits);
    for (size_t i = next(0, true); i < PS_PAGE_BITS; i = next(next(i, false), true)) {
        size_t end = next(i, false);
        CHECK(ps_pages_walk_next(&walk));
        CHECK_EQ(walk.from, i);
        CHECK_EQ(walk.to, end);
        longest = end - i > longest ? end - i : longest;
    }
    CHECK(!ps_pages_walk_next(&walk));
    CHECK_EQ(ps_pages_longest(bits), longest);
}

TEST(neighbours_and_sequences_are_those_of_single_bits) {
    static const unsigned densities[] = {0, 2, 30, 50, 90, 99, 100};
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        for (int round = 0; round < 30; round++) {
            fill_at_random(densities[d]);
            check_neighbours();
            check_sequences();
        }
    }
}

TEST(masks_are_the_bits_of_a_range) {
    for (size_t from = 0; from < PS_PAGE_BITS; from += 7) {
        for (size_t to = from + 1; to <= PS_PAGE_BITS; to += 5) {
            for (size_t index = from / 64; index * 64 < to; index++) {
                uint64_t mask = ps_pages_mask(index, from, to);
                for (size_t i = 0; i < 64; i++) {
                    bool is_in = index * 64 + i >= from && index * 64 + i < to;
                    CHECK_EQ((mask >> i) & 1, is_in);
                }
            }
        }
    }
}

UNIT_MAIN
