/* SPDX-License-Identifier: MIT */
/*
 * Allocations are sampled while there is a demand for it: a profile that is written to a
 * file or a tracer that is attached to the probes. Demands come and go while the program runs; the
 * plain mode's slow paths ask, its fast paths do not.
 *
 * Each time that sampling begins is an epoch of its own: what a heap has counted in an earlier one
 * says nothing. The table, and the live samples in it, stay when sampling ends.
 *
 * Any thread. Lock: PS_RANK_DEMAND, held while the table is mapped, waited for at start only.
 */
#ifndef PS_PROFILE_DEMAND_H
#define PS_PROFILE_DEMAND_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_profile_demand {
    PS_DEMAND_FILE = 1,   /* POOLSHIM_PROFILE; needs stacks */
    PS_DEMAND_PROBES = 2, /* a tracer, which takes the stacks itself */
};

extern PS_HIDDEN uint32_t ps_demand_x_set; /* of enum ps_profile_demand */
extern PS_HIDDEN uint32_t ps_demand_x_epoch;
extern PS_HIDDEN uint32_t ps_demand_x_has_begun;

/* The demands of this moment. */
static inline uint32_t ps_demand_now(void) {
    /* acquire: pairs with begin of demand.c; the epoch is visible, and the next function is true
     * for each thread that gets a block that was sampled since. */
    return ps_load_acquire(&ps_demand_x_set);
}

/* True if there may be live samples: there is a table. */
static inline bool ps_demand_has_begun(void) {
    return ps_load_acquire(&ps_demand_x_has_begun) != 0; /* acquire: pairs with begin */
}

/* Keeps what a later demand needs; begins sampling when the configuration asks for a profile. */
void ps_demand_start(const struct ps_config *config);

/* Compares the demands with the probes' semaphores, and begins or ends sampling. Called when a slow
 * call, or the background thread, has read the clock. */
void ps_demand_tick(void);

void ps_demand_fork_child(void);

#endif
