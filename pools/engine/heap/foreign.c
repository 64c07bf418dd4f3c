/* SPDX-License-Identifier: MIT */
/*
 * See foreign.h.
 */
#include "pools/engine/heap/foreign.h"

#include "pools/engine/heap/early.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/fatal.h"

static enum ps_foreign foreign_policy = PS_FOREIGN_ABORT;

void ps_foreign_start(enum ps_foreign policy) { foreign_policy = policy; }

PS_COLD void ps_foreign_met(const void *block, const char *what) {
    if (ps_early_is_over()) {
        ps_engine_start(); /* this may be the first call of the process: reads the policy */
    }
    if (foreign_policy == PS_FOREIGN_ABORT) {
        ps_fatal_address(what, block);
    }
    if (foreign_policy == PS_FOREIGN_WARN) {
        ps_report_address(what, block);
    }
}
