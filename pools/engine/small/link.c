/* SPDX-License-Identifier: MIT */
/*
 * See link.h. The salts are a counter under a secret, mixed by the last rounds of splitmix64.
 */
#include "pools/engine/small/link.h"

#include "pools/engine/os/os.h"

#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t secret;
static uint64_t x_salts; /* number of salts made */

void ps_link_start(void) { secret = ps_os_random(); }

static uint64_t mix(uint64_t number) {
    uint64_t mixed = secret + number * GOLDEN;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

uintptr_t ps_link_new_salt(void) {
    /* relaxed: only uniqueness matters. */
    return (uintptr_t)mix(ps_add_relaxed(&x_salts, (uint64_t)1));
}

uint64_t ps_link_random_of(const void *address) { return mix((uintptr_t)address); }
