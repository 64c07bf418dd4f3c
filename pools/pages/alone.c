/* SPDX-License-Identifier: MIT */
/*
 * See pages.h: the start of the page layer in libpoolshim-pools, which has no engine. Lock:
 * start_lock.
 */
#include "pools/engine/os/lock.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/page/watch.h"
#include "pools/pages/pages.h"

#include <pthread.h>

static struct ps_lock start_lock = PS_LOCK_INIT(PS_RANK_INIT);
static uint32_t x_is_started;

static void prepare(void) { ps_lock_fork_begin(); }

static void parent(void) { ps_lock_fork_end(); }

static void child(void) {
    ps_lock_fork_child(&start_lock);
    ps_page_cache_fork_child();
    ps_pages_fork_child();
    if (ps_lock_fork_repaired()) {
        ps_pages_fork_salvage();
    }
    ps_lock_fork_end();
}

/* At load, before a second thread can be inside while the first one forks. */
__attribute__((constructor(102))) static void library_loaded(void) {
    (void)pthread_atfork(prepare, parent, child);
    ps_watch_set(&poolshim_pools_watch);
}

static PS_COLD void start(void) {
    ps_lock_watch_forks(); /* this may be the second thread, and the first one may fork */
    ps_lock_acquire(&start_lock);
    if (ps_load_relaxed(&x_is_started) == 0) { /* relaxed: under the lock */
        struct ps_config config = PS_CONFIG_DEFAULT;
        ps_page_cache_start(&config);
        ps_retention_set_delay(config.purge_delay_ms);
        ps_store_release(&x_is_started, 1u); /* release: pairs with ps_pages_start */
    }
    ps_lock_release(&start_lock);
}

void ps_pages_start(void) {
    /* acquire: pairs with the release above; makes the page layer's settings visible. */
    if (PS_UNLIKELY(ps_load_acquire(&x_is_started) == 0)) {
        start();
    }
}
