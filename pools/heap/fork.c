/* SPDX-License-Identifier: MIT */
/*
 * See fork.h. Registered at the first allocation of the process, so our prepare handler runs after
 * those of everybody who registered later, and our child handler before theirs. Those that were
 * registered even earlier run while every lock is held, by their own thread: see lock.h.
 */
#include "pools/heap/fork.h"

#include "pools/heap/guard.h"
#include "pools/heap/hard_large.h"
#include "pools/heap/late.h"
#include "pools/heap/mapping.h"
#include "pools/heap/record_peak.h"
#include "pools/os/lock.h"
#include "pools/page/page_cache.h"
#include "pools/small/central.h"

#include <pthread.h>

static void prepare(void) {
    ps_lock_fork_prepare();
    ps_thread_fork_prepare();
    ps_late_fork_prepare();
    ps_thread_fork_lock_registry();
    ps_central_fork_prepare();
    ps_mapping_fork_prepare();
    ps_page_cache_fork_prepare();
    ps_guard_fork_prepare();
    ps_hard_large_fork_prepare();
    ps_record_fork_prepare();
}

static void parent(void) {
    ps_record_fork_parent();
    ps_hard_large_fork_parent();
    ps_guard_fork_parent();
    ps_page_cache_fork_parent();
    ps_mapping_fork_parent();
    ps_central_fork_parent();
    ps_late_fork_parent();
    ps_thread_fork_parent();
    ps_lock_fork_parent();
}

static void child(void) {
    ps_lock_fork_child();
    ps_record_fork_child();
    ps_hard_large_fork_child();
    ps_guard_fork_child();
    ps_page_cache_fork_child();
    ps_mapping_fork_child();
    ps_central_fork_child();
    ps_late_fork_child();
    ps_thread_fork_child();
    /* Still forking: whoever registered later holds locks of higher rank until his turn comes. */
    ps_thread_fork_salvage();
    ps_lock_fork_parent();
}

void ps_fork_register(void) { (void)pthread_atfork(prepare, parent, child); }
