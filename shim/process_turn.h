/* SPDX-License-Identifier: MIT */
/*
 * A word that admits one thread of the process at a time to work which others skip; no thread
 * blocks. It has the process's id, so in the child of a fork the turn of a thread that does not
 * exist there counts for nothing, and no handler has to end it. Callers: flight.c, profile.c,
 * stats_live.c. (pools/engine/os/turn.h is the engine's, which a fork repairs.)
 */
#ifndef PS_SHIM_PROCESS_TURN_H
#define PS_SHIM_PROCESS_TURN_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/syscall.h"

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t ps_process_id(void) { return (uint32_t)ps_syscall3(SYS_getpid, 0, 0, 0); }

/* x_holder: 0: no thread. False: another thread of this process has the turn, or the calling one,
 * which a signal handler has interrupted. */
static inline bool ps_process_turn_begin(uint32_t *x_holder) {
    uint32_t own = ps_process_id();
    uint32_t holder = ps_load_relaxed(x_holder); /* relaxed: the swap compares it */
    /* acquire: pairs with the end; makes the variables of the last turn visible. */
    return holder != own && ps_cas_strong_acquire(x_holder, &holder, own);
}

static inline void ps_process_turn_end(uint32_t *x_holder) {
    ps_store_release(x_holder, 0u); /* release: the variables that the turn protects */
}

#endif
