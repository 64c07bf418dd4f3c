/* SPDX-License-Identifier: MIT */
/* Size distributions; see sizes.h. */
#include "tests/stress/lib/sizes.h"

enum sizes_kind {
    POPULAR,    /* the most frequent sizes */
    FEW,        /* four fixed sizes: spans fill and drain as a whole */
    SMALL,      /* log-uniform 1..1024 */
    MIXED,      /* log-uniform 1..64 KiB */
    BOUNDARIES, /* powers of two and their neighbours */
    SIZES_KINDS,
};

static const uint16_t popular[] = {8,  8,  16, 16, 24, 24, 32,  32,  40,  48,  48,  56,
                                   64, 64, 72, 80, 96, 96, 128, 144, 240, 256, 512, 1024};

#define SMALL_BYTES_MAX 4096

void sizes_choose_profile(struct sizes_profile *profile, struct random_state *random) {
    profile->kind = random_below(random, SIZES_KINDS);
    for (unsigned i = 0; i < 4; i++) {
        profile->only[i] = random_log_uniform(random, 1, i == 3 ? 8192 : 512);
    }
}

static size_t rare_size(struct random_state *random) {
    uint32_t kind = random_below(random, 64);
    if (kind == 0) {
        return random_log_uniform(random, (uint64_t)1 << 20, (uint64_t)32 << 20);
    }
    if (kind < 6) {
        return random_log_uniform(random, 65536, (uint64_t)1 << 20);
    }
    if (kind < 12) {
        return (size_t)4096 * (1 + random_below(random, 64));
    }
    return kind < 16 ? 0 : random_log_uniform(random, 1, 65536);
}

size_t sizes_next_small(const struct sizes_profile *profile, struct random_state *random) {
    switch (profile->kind) {
    case POPULAR:
        return popular[random_below(random, sizeof popular / sizeof popular[0])];
    case FEW:
        return profile->only[random_below(random, 4)];
    case SMALL:
        return random_log_uniform(random, 1, 1024);
    case MIXED:
        return random_log_uniform(random, 1, SMALL_BYTES_MAX);
    default: {
        size_t power = (size_t)8 << random_below(random, 10);
        return power - 2 + random_below(random, 5);
    }
    }
}

size_t sizes_next(const struct sizes_profile *profile, struct random_state *random) {
    if (random_below(random, 256) == 0) {
        return rare_size(random);
    }
    if (profile->kind == MIXED) {
        return random_log_uniform(random, 1, 65536);
    }
    if (profile->kind == BOUNDARIES) {
        size_t power = (size_t)8 << random_below(random, 14);
        return power - 2 + random_below(random, 5);
    }
    return sizes_next_small(profile, random);
}
