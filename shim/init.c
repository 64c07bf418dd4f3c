/* SPDX-License-Identifier: MIT */
/*
 * Start and end of the library. The engine starts at the first allocation; the constructor
 * ensures that it has started, and the destructor prints statistics, writes the recording or
 * the profile, and checks freed blocks where they are hardened. Nothing is torn down at exit: other
 * libraries may allocate afterwards.
 *
 * Also the start of the pages of the pools library, which pools/pages/pages.h requires: the sources
 * of pools/pages are exported here on the engine's page layer, so that a program's pools and its
 * malloc share one page cache. No locks of its own.
 */
#include "pools/engine/harden/hard.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/watch.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "pools/pages/pages.h"
#include "shim/config.h"
#include "shim/flight.h"
#include "shim/loader.h"
#include "shim/profile.h"
#include "shim/record.h"
#include "shim/stats.h"
#include "shim/threads.h"
#include "shim/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* The engine's hook, see pools/engine/heap/start.h. */
void ps_configure(struct ps_config *config) {
    static char *const no_environment[] = {NULL};
    ps_shim_configure(config, ps_loader_is_idle() ? no_environment : environ);
    ps_trace_open(config);
}

__attribute__((constructor(101))) static void library_loaded(void) {
    ps_engine_start();
    ps_threads_at_start();
    ps_stats_at_start();
    ps_record_at_start();
    ps_trace_at_start();
    ps_profile_at_start();
    ps_flight_at_start();
    if (ps_hard_level != 0) {
        (void)at_quick_exit(ps_hard_sweep); /* refused: no sweep at a quick_exit */
    }
}

__attribute__((destructor(101))) static void library_unloaded(void) {
    ps_stats_at_exit();
    ps_record_at_exit();
    ps_trace_at_exit();
    ps_profile_at_exit();
    ps_flight_at_exit();
    ps_hard_sweep();
}

/* ---- pages ---- */

void ps_pages_start(void) {
    if (!ps_engine_has_started()) {
        ps_engine_start();
    }
}

const struct ps_pools_watch poolshim_pools_watch = {
    .x_demand = &ps_demand_x_set,
    .pages_taken = ps_profile_pages_taken,
    .pages_freed = ps_profile_end_sample,
    .chunk_begins = ps_profile_pool_begins,
    .chunk_ends = ps_profile_pool_ends,
};

/* The engine's hook, see pools/engine/profile/demand.h. */
PS_AT_START void ps_demand_begun(void) { ps_watch_set(&poolshim_pools_watch); }

static void pages_child(void) {
    ps_pages_fork_child();
    if (ps_lock_fork_repaired()) {
        ps_pages_fork_salvage();
    }
}

/* After library_loaded, which has started the engine: its handlers were registered before, so
 * in the child they come first, and the page cache works again when pages that other threads left
 * are given to it. */
__attribute__((constructor(102))) static void pages_loaded(void) {
    (void)pthread_atfork(NULL, NULL, pages_child);
}
