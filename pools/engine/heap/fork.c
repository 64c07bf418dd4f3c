/* SPDX-License-Identifier: MIT */
/*
 * See fork.h. Registered at the first allocation of the process. Handlers that were registered
 * earlier run before ours in the child, and may allocate there: see ps_lock_watch_forks.
 */
#include "pools/engine/heap/fork.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/detached.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/steal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/medium_purge.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/orphans.h"

#include <pthread.h>

static struct ps_lock *start_lock;

static void prepare(void) { ps_lock_fork_begin(); }

static void parent(void) { ps_lock_fork_end(); }

/* Forwards the notices of heaps whose threads do not exist here. All locks are free. */
static void salvage_heaps(void) {
    for (struct ps_heap *heap = ps_registry_first(); heap != NULL; heap = heap->next_heap) {
        if (heap->x_state == PS_HEAP_DEAD) {
            ps_heap_take_all_notices(heap);
            ps_medium_fork_salvage(heap);
        } else {
            ps_heap_forward_notices(heap); /* a thread that is not here may have been forwarding */
        }
    }
}

static void child(void) {
    ps_page_cache_fork_child();
    ps_medium_fork_child();
    ps_medium_purge_fork_child();
    ps_mapping_fork_child();
    ps_steal_fork_child();
    ps_limit_fork_child();
    ps_orphans_fork_child();
    ps_mode.hook.fork_child();
    const struct ps_heap *late_heap = ps_detached_fork_child();
    ps_lock_fork_child(start_lock);
    ps_registry_fork_child(late_heap);
    ps_background_fork_child(ps_thread.has_begun != 0);
    if (ps_lock_fork_repaired()) {
        ps_steal_fork_salvage(); /* first: reads lists of notices that the next call empties */
        salvage_heaps();
    }
    ps_lock_fork_end();
}

void ps_fork_register(struct ps_lock *lock) {
    start_lock = lock;
    (void)pthread_atfork(prepare, parent, child);
}
