/* SPDX-License-Identifier: MIT */
/*
 * See link.h. The salts are a counter under a secret, mixed.
 */
#include "pools/engine/small/link.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

static uint64_t secret;
static uint64_t x_salts; /* number of salts made */

void ps_link_start(void) { secret = ps_os_random(); }

static uint64_t mix(uint64_t number) { return ps_mix_64(secret + number * PS_GOLDEN_64); }

uintptr_t ps_link_new_salt(void) {
    /* relaxed: only uniqueness matters. */
    return (uintptr_t)mix(ps_add_relaxed(&x_salts, (uint64_t)1));
}

uint64_t ps_link_random_of(const void *address) { return mix((uintptr_t)address); }
