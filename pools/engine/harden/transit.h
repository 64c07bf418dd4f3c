/* SPDX-License-Identifier: MIT */
/*
 * Blocks in transit: those that have left the quarantine, and are about to return to a slab or to
 * extents. A partition (front/partition.h) ends only when none of its blocks is, because its slabs
 * and extents end with it. Its end flushes the quarantine, and then spins until
 * all sections that had begun are over: later ones find no block of the partition. Sections count
 * in one of two phases; the wait changes the phase twice, so that new sections do not prolong it.
 * (After the counters of user-space RCU: Desnoyers et al.)
 *
 * Any thread, at hardened levels, once a partition has begun. No locks.
 */
#ifndef PS_HARDEN_TRANSIT_H
#define PS_HARDEN_TRANSIT_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdint.h>

extern PS_HIDDEN struct ps_transit {
    uint32_t x_phase;       /* 0 or 1 */
    uint32_t x_sections[2]; /* in each phase */
} ps_transit;

/* Begins a section, in which blocks leave the quarantine and return. Returns its phase. */
static inline uint32_t ps_transit_begin(void) {
    /* seq_cst, all: a section of the earlier phase that ps_transit_settle has missed begins after
     * its flush, and so finds none of the blocks. */
    uint32_t phase = ps_load_seq_cst(&ps_transit.x_phase);
    ps_add_seq_cst(&ps_transit.x_sections[phase], 1u);
    return phase;
}

static inline void ps_transit_end(uint32_t phase) {
    ps_add_seq_cst(&ps_transit.x_sections[phase], (uint32_t)-1); /* orders what it returned */
}

/* Blocks until the sections of this moment have ended. */
void ps_transit_settle(void);

/* In the child of a fork, on its only thread. */
void ps_transit_fork_child(void);

#endif
