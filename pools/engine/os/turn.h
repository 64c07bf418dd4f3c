/* SPDX-License-Identifier: MIT */
/*
 * A word that admits one thread at a time to work which others skip; no thread waits. In the child
 * of a fork, a step that a signal handler interrupted continues after it, so that its turn remains;
 * that of a thread which does not exist there is taken back.
 */
#ifndef PS_OS_TURN_H
#define PS_OS_TURN_H

#include "pools/engine/os/lock.h"

/* x_holder: lock id of the admitted thread; 0: none. */
static inline bool ps_turn_begin(uint32_t *x_holder) {
    uint32_t none = 0;
    return ps_cas_strong_acquire(x_holder, &none, ps_lock_self()); /* acquire: pairs with end */
}

static inline void ps_turn_end(uint32_t *x_holder) {
    ps_store_release(x_holder, 0u); /* release: the variables that the turn protects */
}

static inline bool ps_turn_is_own(const uint32_t *x_holder) {
    return ps_load_relaxed(x_holder) == ps_lock_self(); /* relaxed: no other thread stores its id */
}

#endif
