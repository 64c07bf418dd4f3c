/* SPDX-License-Identifier: MIT */
/*
 * Which sizes a thread requests: each generation of a thread has one profile of its own, so that
 * crowded classes, many classes, page runs and own mappings each get their turn.
 */
#ifndef PS_STRESS_SIZES_H
#define PS_STRESS_SIZES_H

#include "tests/stress/lib/random.h"

#include <stddef.h>

struct sizes_profile {
    unsigned kind;
    size_t only[4]; /* of the profile with few sizes */
};

void sizes_choose_profile(struct sizes_profile *profile, struct random_state *random);

/* 0 to 32 MiB, mostly small. */
size_t sizes_next(const struct sizes_profile *profile, struct random_state *random);

/* The same without page runs and mappings: for bursts of thousands of equal blocks. */
size_t sizes_next_small(const struct sizes_profile *profile, struct random_state *random);

#endif
