/* SPDX-License-Identifier: MIT */
/*
 * See fork.h. Registered at the first allocation of the process; handlers registered earlier run
 * before ours in the child, and may allocate there: see ps_lock_watch_forks.
 */
#include "pools/engine/heap/fork.h"

#include "pools/engine/heap/guard.h"
#include "pools/engine/heap/hard_large.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/idle.h"
#include "pools/engine/heap/late.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/record_peak.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/central.h"

#include <pthread.h>

static void prepare(void) { ps_lock_fork_begin(); }

static void parent(void) { ps_lock_fork_end(); }

static void child(void) {
    ps_page_cache_fork_child();
    ps_mapping_fork_child();
    ps_central_fork_child();
    ps_guard_fork_child();
    ps_hard_large_fork_child();
    ps_record_fork_child();
    ps_thread_fork_child(ps_late_fork_child());
    if (ps_lock_fork_repaired()) {
        ps_remote_fork_salvage(); /* first: looks at lists of wakes that the next empties */
        ps_thread_fork_salvage();
        ps_idle_fork_salvage();
    }
    ps_lock_fork_end();
}

void ps_fork_register(void) { (void)pthread_atfork(prepare, parent, child); }
