/* SPDX-License-Identifier: MIT */
/*
 * See start.h. Lock: init_lock, for the start of the layers.
 *
 * The fork handlers are registered at the first allocation of the process. Handlers that were
 * registered earlier run before ours in the child, and may allocate there: see ps_lock_watch_forks.
 */
#include "pools/engine/heap/start.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/surplus.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/rseq.h"
#include "pools/engine/page/extents.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/mark.h"
#include "pools/engine/small/size_class.h"

#include <pthread.h>

static struct ps_lock init_lock = PS_LOCK_INIT(PS_RANK_INIT);
uint32_t ps_engine_x_has_started;

__attribute__((weak)) void ps_configure(struct ps_config *config) { (void)config; }

/* ---- forks ---- */

static void prepare(void) { ps_lock_fork_begin(); }

static void parent(void) { ps_lock_fork_end(); }

static void child(void) {
    ps_page_cache_fork_child();
    ps_extents_fork_child();
    ps_medium_fork_child();
    ps_medium_purge_fork_child();
    ps_surplus_fork_child();
    ps_mapping_fork_child();
    ps_front_engine_fork_child();
    ps_thread_fork_child();
    ps_limit_fork_child();
    ps_mode.hook.fork_child();
    ps_lock_fork_child(&init_lock);
    /* relaxed: one thread. */
    ps_background_fork_child(ps_load_relaxed(&ps_front_thread.x_is_counted) != 0);
    ps_lock_fork_end();
}

/* ---- start ---- */

/* Starts the layers. Under init_lock; nothing here allocates. */
static void start_locked(void) {
    struct ps_config config = PS_CONFIG_DEFAULT;
    ps_configure(&config);
    ps_mark_start();
    ps_size_class_start(&config);
    ps_page_cache_start(&config);
    ps_retention_set_delay(config.purge_delay_ms);
    ps_limit_start(&config);
    ps_large_start(&config);
    ps_mode_start(&config);
    ps_rseq_start();
    ps_front_engine_start();
    (void)ps_counting_want(config.thread_bytes);
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
        (void)ps_engine_may_serve();                  /* its memory before the program limits it */
        (void)pthread_atfork(prepare, parent, child); /* may allocate */
    }
}

bool ps_engine_may_serve(void) {
    const struct ps_front_words *words = &ps_front_thread;
    if (PS_LIKELY(words->armed_bytes != 0)) { /* it has begun, and may have ended */
        return true;
    }
    if (PS_UNLIKELY(!ps_bootstrap_is_over())) {
        return false;
    }
    if (PS_UNLIKELY(!ps_engine_has_started())) {
        ps_engine_start();
    }
    if (words->end != PS_FRONT_END_OVER) {
        ps_front_begin();
    }
    return true;
}
