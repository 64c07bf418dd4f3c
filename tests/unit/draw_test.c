/* SPDX-License-Identifier: MIT */
/* Random numbers for sampling and the weight of a sample, compared with the C library. */
#include "pools/engine/heap/draw.h"
#include "tests/unit/unit.h"

#include <math.h>

TEST(a_weight_is_the_inverse_of_the_probability) {
    for (size_t bytes = 8; bytes < 64 << 20; bytes = bytes * 5 / 4 + 1) {
        double hit = -expm1(-(double)bytes / (512.0 * 1024));
        double weight = (double)ps_draw_weight(bytes, 512 * 1024) / PS_DRAW_WEIGHT_ONE;
        CHECK(fabs(weight * hit - 1) < 1e-5);
    }
    CHECK_EQ(ps_draw_weight(8, 1), PS_DRAW_WEIGHT_ONE * 1.00033561 + 0.5);
}

TEST(exponential_numbers_have_their_distribution) {
    uint64_t state = 1;
    const int draws = 1000000;
    double sum = 0;
    int below_1 = 0, above_5 = 0;
    for (int i = 0; i < draws; i++) {
        double drawn = ps_draw_exponential(ps_draw_bits(&state));
        REQUIRE(drawn > 0);
        sum += drawn;
        below_1 += drawn < 1;
        above_5 += drawn > 5;
    }
    CHECK(fabs(sum / draws - 1) < 4 / sqrt(draws));
    CHECK(fabs(below_1 / (double)draws - 0.6321206) < 4 * 0.4822 / sqrt(draws));
    CHECK(fabs(above_5 / (double)draws - 0.0067379) < 4 * 0.0818 / sqrt(draws));
    CHECK(ps_draw_exponential(UINT64_MAX) > 0);
}

TEST(trials_have_their_distribution) {
    static const uint32_t periods[] = {1, 2, 64, 1000, 1000000000};
    uint64_t state = 1;
    const int draws = 300000;
    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        double period = periods[i];
        double sum = 0;
        int firsts = 0;
        for (int j = 0; j < draws; j++) {
            int64_t trial = ps_draw_trials(&state, periods[i]);
            REQUIRE(trial >= 1);
            sum += (double)trial;
            firsts += trial == 1;
        }
        CHECK(fabs(sum / draws / period - 1) < 4 / sqrt(draws));
        CHECK(fabs(firsts / (double)draws - 1 / period) <= 4 * sqrt(1 / period / draws));
    }
}

UNIT_MAIN
