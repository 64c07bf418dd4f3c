/* SPDX-License-Identifier: MIT */
/*
 * See number.h.
 */
#include "pools/engine/front/number.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/lock.h"

__thread uint32_t ps_front_number_own __attribute__((tls_model("initial-exec")));

static uint64_t x_taken; /* a bit for each number */

/* relaxed, all of x_taken: it protects no memory, see number.h. */
size_t ps_front_number_take(void) {
    uint64_t taken = ps_load_relaxed(&x_taken);
    while (taken != UINT64_MAX && !ps_cas_strong_relaxed(&x_taken, &taken, taken | (taken + 1))) {
    }
    uint32_t own = taken != UINT64_MAX
                       ? (uint32_t)__builtin_ctzll(~taken) + 1
                       : (ps_lock_self() % PS_FRONTS_LOCKED + 1) | PS_FRONT_NUMBER_SHARED;
    uint32_t none = 0;
    /* relaxed: this thread's own, and its signal handlers', one of which may have been first. */
    if (!ps_cas_strong_relaxed(&ps_front_number_own, &none, own)) {
        if (taken != UINT64_MAX) {
            ps_and_relaxed(&x_taken, ~((uint64_t)1 << (own - 1)));
        }
        own = none;
    }
    return (own & ~PS_FRONT_NUMBER_SHARED) - 1;
}

void ps_front_number_return(void) {
    uint32_t own = ps_exchange_relaxed(&ps_front_number_own, 0u); /* relaxed: as above */
    if (own != 0 && (own & PS_FRONT_NUMBER_SHARED) == 0) {
        ps_and_relaxed(&x_taken, ~((uint64_t)1 << (own - 1)));
    }
}

void ps_front_number_fork_child(void) {
    uint32_t own = ps_front_number_own;
    bool has_own = own != 0 && (own & PS_FRONT_NUMBER_SHARED) == 0;
    ps_store_relaxed(&x_taken, has_own ? (uint64_t)1 << (own - 1) : 0);
}
