/* SPDX-License-Identifier: MIT */
/*
 * See start.h. Lock: init_lock, held while the layers start.
 */
#include "pools/engine/heap/start.h"

#include "pools/engine/heap/alloc.h"
#include "pools/engine/heap/fork.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/resize.h"
#include "pools/engine/heap/take.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"

static struct ps_lock init_lock = PS_LOCK_INIT(PS_RANK_INIT);
uint32_t ps_engine_x_has_started;

__attribute__((weak)) void ps_configure(struct ps_config *config) { (void)config; }

/* Starts the layers. Under init_lock; nothing here allocates. */
static void start_locked(void) {
    struct ps_config config = PS_CONFIG_DEFAULT;
    ps_configure(&config);
    ps_link_start();
    ps_size_class_start(&config);
    ps_page_cache_start(&config);
    ps_retention_start(config.purge_delay_ms);
    ps_limit_start(&config);
    ps_large_start(&config);
    ps_mode_start(&config);
    ps_take_start();
    ps_thread_start();
}

PS_COLD void ps_engine_start(void) {
    bool is_first = false;
    ps_lock_acquire(&init_lock);
    if (ps_load_relaxed(&ps_engine_x_has_started) == 0) { /* relaxed: under the lock */
        start_locked();
        is_first = true;
        /* release: pairs with the acquire in ps_engine_has_started; makes all of it visible. */
        ps_store_release(&ps_engine_x_has_started, 1u);
    }
    ps_lock_release(&init_lock);
    if (is_first) {
        ps_thread_start_first();
        ps_fork_register(&init_lock); /* may allocate */
    }
}
