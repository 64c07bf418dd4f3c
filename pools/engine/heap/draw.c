/* SPDX-License-Identifier: MIT */
/*
 * See draw.h. Logarithm and exponential without the mathematical library, which the engine does not
 * link; accurate to 1e-11.
 */
#include "pools/engine/heap/draw.h"

#include "pools/engine/base/bits.h"

#include <string.h>

#define DRAWN_LIMIT ((double)((int64_t)1 << 60))

#define LN_2 0.69314718055994530942
#define SQRT_2 1.41421356237309504880
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define CERTAIN 40.0 /* beyond this a block is sampled with probability 1 - 4e-18 */

uint64_t ps_draw_bits(uint64_t *state) { return ps_mix_64(*state += PS_GOLDEN_64); }

/* x: normal and positive. */
static double logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
    bits = (bits & (((uint64_t)1 << MANTISSA_BITS) - 1)) | (uint64_t)EXPONENT_BIAS << MANTISSA_BITS;
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    if (mantissa > SQRT_2) {
        mantissa /= 2;
        exponent++;
    }
    /* ln m = 2 artanh((m - 1) / (m + 1)), of at most 0.172. */
    double ratio = (mantissa - 1) / (mantissa + 1);
    double square = ratio * ratio;
    static const double factors[] = {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
    double sum = 0;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        sum = sum * square + factors[i];
    }
    return 2 * ratio * sum + exponent * LN_2;
}

double ps_draw_exponential(uint64_t bits) {
    const double unit = 1.0 / ((uint64_t)1 << 52);
    return -logarithm(((double)(bits >> 12) + 0.5) * unit);
}

/* 1 - exp(-x), for x from 0 to CERTAIN. */
static double probability(double x) {
    int halvings = 0;
    for (; x > 0.125; x /= 2) {
        halvings++;
    }
    double sum = 0;
    for (int n = 8; n >= 1; n--) { /* x - x^2/2 + x^3/6 - ... */
        sum = x / n * (1 - sum);
    }
    for (; halvings > 0; halvings--) { /* 1 - (1 - p)^2 */
        sum = sum * (2 - sum);
    }
    return sum;
}

uint64_t ps_draw_weight(size_t bytes, size_t interval_bytes) {
    double ratio = (double)bytes / (double)interval_bytes;
    double hit = ratio < CERTAIN ? probability(ratio) : 1;
    return (uint64_t)(PS_DRAW_WEIGHT_ONE / hit + 0.5);
}

uint64_t ps_draw_weighted(uint64_t weight, size_t bytes) {
    uint64_t units = PS_DRAW_WEIGHT_ONE;
    return weight / units * bytes + (weight % units * bytes + units / 2) / units;
}

/* ---- the next sample ---- */

static int64_t whole(double drawn) {
    return 1 + (int64_t)(drawn < DRAWN_LIMIT ? drawn : DRAWN_LIMIT);
}

int64_t ps_draw_bytes(uint64_t *state, size_t interval_bytes) {
    return whole(ps_draw_exponential(ps_draw_bits(state)) * (double)interval_bytes);
}

int64_t ps_draw_trials(uint64_t *state, uint32_t period) {
    double drawn = ps_draw_exponential(ps_draw_bits(state));
    return period <= 1 ? 1 : whole(drawn / -logarithm(1 - 1.0 / period));
}
