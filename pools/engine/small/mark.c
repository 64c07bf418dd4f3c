/* SPDX-License-Identifier: MIT */
/*
 * See mark.h.
 */
#include "pools/engine/small/mark.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

static uint64_t secret;
uintptr_t ps_mark_salt;

static uint64_t mix(uint64_t number) { return ps_mix_64(secret + number * PS_GOLDEN_64); }

void ps_mark_start(void) {
    secret = ps_os_random();
    ps_mark_salt = (uintptr_t)mix(0);
}

uint64_t ps_mark_random_of(const void *address) { return mix((uintptr_t)address); }
