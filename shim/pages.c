/* SPDX-License-Identifier: MIT */
/*
 * The pages of the pools library inside libpoolshim.so: the sources of pools/pages on the engine's
 * page layer, exported, so that a program's pools and its malloc share one page cache. This file is
 * the start that pages/pages.h requires. No locks of its own.
 */
#include "pools/pages/pages.h"

#include "pools/engine/heap/start.h"
#include "pools/engine/os/lock.h"

#include <pthread.h>

void ps_pages_start(void) {
    if (!ps_engine_has_started()) {
        ps_engine_start();
    }
}

static void child(void) {
    ps_pages_fork_child();
    if (ps_lock_fork_repaired()) {
        ps_pages_fork_salvage();
    }
}

/* After init.c's constructor, which has started the engine: its handlers were registered before, so
 * in the child they come first, and the page cache works again when pages that other threads left
 * are given to it. */
__attribute__((constructor(102))) static void library_loaded(void) {
    (void)pthread_atfork(NULL, NULL, child);
}
