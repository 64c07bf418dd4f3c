/* SPDX-License-Identifier: MIT */
/*
 * Start and end of the library. The engine starts at the first allocation; the constructor
 * ensures that it has started, and the destructor prints statistics, writes the recording or
 * the profile, and checks freed blocks where they are hardened. Nothing is torn down at exit: other
 * libraries may allocate afterwards.
 */
#include "pools/engine/harden/hard.h"
#include "pools/engine/heap/start.h"
#include "shim/config.h"
#include "shim/profile.h"
#include "shim/record.h"
#include "shim/stats.h"
#include "shim/threads.h"

#include <stdlib.h>

/* The engine's hook, see pools/engine/heap/start.h. */
void ps_configure(struct ps_config *config) { ps_shim_configure(config); }

__attribute__((constructor(101))) static void library_loaded(void) {
    ps_engine_start();
    ps_threads_at_start();
    ps_stats_at_start();
    ps_record_at_start();
    ps_profile_at_start();
    if (ps_hard_level != 0) {
        (void)at_quick_exit(ps_hard_sweep); /* refused: no sweep at a quick_exit */
    }
}

__attribute__((destructor(101))) static void library_unloaded(void) {
    ps_stats_at_exit();
    ps_record_at_exit();
    ps_profile_at_exit();
    ps_hard_sweep();
}
