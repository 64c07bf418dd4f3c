/* SPDX-License-Identifier: MIT */
/*
 * The three ways by which a thread finds its front (pools/engine/front/front.h). Over the real OS:
 * under the fake one no thread is registered for sequences.
 */
#ifndef PS_TESTS_UNIT_FRONT_WAYS_H
#define PS_TESTS_UNIT_FRONT_WAYS_H

#include "pools/engine/front/store.h"
#include "pools/engine/front/window.h"
#include "pools/engine/heap/front_path.h"
#include "tests/unit/engine.h"

#include <sched.h>

enum way { WAY_OWN, WAY_LOCKED, WAY_SEQUENCES };

/* The calling thread, which starts the engine, has its front that way; the others by sequences,
 * unless it is WAY_LOCKED. False: this machine has no sequences. */
static inline bool start_in_way(enum way way) {
    ps_engine_start();
    ps_heap_free(ps_heap_alloc(1));
    ps_maintenance_flush();
    REQUIRE(ps_front_thread.own == ps_front_table.x_own);
    if (way == WAY_LOCKED) {
        ps_front_table.has_sequences = false;
    } else if (way == WAY_SEQUENCES && !ps_front_uses_sequences()) {
        printf("not registered for restartable sequences\n");
        return false;
    }
    if (way != WAY_OWN) {
        ps_front_share_own();
    }
    return true;
}

/* Without a change of the processor's number, by which threads may find their fronts. */
static inline void stay_on_a_processor(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)sched_getcpu(), &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

#endif
