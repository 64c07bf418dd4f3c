/* SPDX-License-Identifier: MIT */
/*
 * See transit.h.
 */
#include "pools/engine/harden/transit.h"

#include "pools/engine/os/os.h"
#include "pools/engine/os/turn.h"

struct ps_transit ps_transit;
static uint32_t x_holder; /* lock id of the thread that changes the phase; 0: none */

static void pause_for(void) {
    uint32_t never = 0;
    ps_os_wait_ms(&never, 0, 1);
}

void ps_transit_settle(void) {
    while (!ps_turn_begin(&x_holder)) { /* ends: sections are short */
        pause_for();
    }
    for (int i = 0; i < 2; i++) { /* both: a section may count in the phase that it read long ago */
        uint32_t phase = ps_load_relaxed(&ps_transit.x_phase); /* relaxed: the holder's */
        ps_store_seq_cst(&ps_transit.x_phase, 1 - phase);
        /* Below 0: in the child of a fork by a signal handler, of the section that it interrupted.
         */
        while ((int32_t)ps_load_seq_cst(&ps_transit.x_sections[phase]) > 0) { /* ends: as above */
            pause_for();
        }
    }
    ps_turn_end(&x_holder);
}

void ps_transit_fork_child(void) {
    ps_store_relaxed(&ps_transit.x_sections[0], 0u); /* relaxed, all: one thread */
    ps_store_relaxed(&ps_transit.x_sections[1], 0u);
    ps_turn_end(&x_holder);
}
