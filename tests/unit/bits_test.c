/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes, against the plainest way to compute the same. */
#include "pools/engine/base/bits.h"

#include "tests/unit/unit.h"

#define ROUNDS 20000

/* Any number of bits, so that small values are as likely as large ones. */
static size_t random_size(void) { return unit_random() >> (unit_random() % 64); }

TEST(powers_of_two_have_exactly_one_bit) {
    CHECK(!ps_is_power_of_two(0));
    for (unsigned bit = 0; bit < 64; bit++) {
        CHECK(ps_is_power_of_two((size_t)1 << bit));
        CHECK(bit == 0 || !ps_is_power_of_two(((size_t)1 << bit) | 1));
    }
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size();
        CHECK_EQ(ps_is_power_of_two(n), __builtin_popcountll(n) == 1);
    }
}

TEST(rounding_gives_the_nearest_multiple_on_its_side) {
    for (int round = 0; round < ROUNDS; round++) {
        size_t unit = (size_t)1 << (unit_random() % 32);
        size_t n = random_size() >> 2; /* no overflow */
        CHECK_EQ(ps_round_up(n, unit), (n / unit + (n % unit != 0)) * unit);
        CHECK_EQ(ps_round_down(n, unit), n / unit * unit);
    }
}

TEST(rounding_up_past_the_end_wraps_below_its_argument) {
    for (unsigned bit = 1; bit < 64; bit++) {
        size_t unit = (size_t)1 << bit;
        CHECK(ps_round_up(SIZE_MAX, unit) < SIZE_MAX);
        CHECK(ps_round_up(SIZE_MAX - unit + 2, unit) == 0);
        CHECK(ps_round_up(SIZE_MAX - unit + 1, unit) == SIZE_MAX - unit + 1);
    }
}

TEST(log2_is_the_index_of_the_highest_bit) {
    for (unsigned bit = 0; bit < 64; bit++) {
        size_t lowest = (size_t)1 << bit;
        CHECK_EQ(ps_log2(lowest), bit);
        CHECK_EQ(ps_log2(lowest | (lowest - 1)), bit);
        CHECK_EQ(ps_log2(lowest | (random_size() & (lowest - 1))), bit);
    }
}

TEST(min_and_max_order_their_arguments) {
    CHECK_EQ(ps_min(0, SIZE_MAX), 0);
    CHECK(ps_max(0, SIZE_MAX) == SIZE_MAX);
    CHECK_EQ(ps_min(5, 5), 5);
    for (int round = 0; round < ROUNDS; round++) {
        size_t a = random_size();
        size_t b = random_size();
        CHECK(ps_min(a, b) <= ps_max(a, b));
        CHECK((ps_min(a, b) == a && ps_max(a, b) == b) || (ps_min(a, b) == b && ps_max(a, b) == a));
    }
}

UNIT_MAIN
