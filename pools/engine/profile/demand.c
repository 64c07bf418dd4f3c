/* SPDX-License-Identifier: MIT */
/*
 * See demand.h. Lock: demand_lock, protects changes of everything here.
 */
#include "pools/engine/profile/demand.h"

#include "pools/engine/heap/medium_cache.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/probe.h"
#include "pools/engine/profile/table.h"
#include "pools/engine/small/size_class.h"

uint32_t ps_demand_x_set;
uint32_t ps_demand_x_epoch;
uint32_t ps_demand_x_has_begun;

static struct ps_lock demand_lock = PS_LOCK_INIT(PS_RANK_DEMAND);
static size_t max_bytes; /* of the table; constant */
static bool is_possible; /* false once the table could not be mapped */
static bool has_table;

/* ---- lock held ---- */

static bool has_room_for_samples(void) {
    if (!has_table && is_possible) {
        has_table = ps_table_start(max_bytes);
        is_possible = has_table; /* not tried again at each tick */
    }
    return has_table;
}

static void begin(enum ps_profile_demand demand) {
    if (!has_room_for_samples()) {
        return;
    }
    /* release: pairs with ps_demand_has_begun; makes the table visible. */
    ps_store_release(&ps_demand_x_has_begun, 1u);
    uint32_t set = ps_load_relaxed(&ps_demand_x_set); /* relaxed: written under the lock */
    if (set == 0) {
        /* relaxed, both: written under the lock, and published by the store of the demands. */
        ps_store_relaxed(&ps_demand_x_epoch, ps_load_relaxed(&ps_demand_x_epoch) + 1);
        ps_alloc_set_refill_max(SIZE_MAX);
    }
    ps_store_release(&ps_demand_x_set, set | demand); /* release: pairs with ps_demand_now */
}

static void end(enum ps_profile_demand demand) {
    uint32_t set = ps_load_relaxed(&ps_demand_x_set) & ~(uint32_t)demand; /* relaxed: as above */
    if (set == 0) {
        ps_alloc_set_refill_max(ps_size_class_max_bytes);
    }
    ps_store_relaxed(&ps_demand_x_set, set); /* relaxed: what is a moment old samples once more */
}

/* ---- any thread ---- */

PS_AT_START void ps_demand_start(const struct ps_config *config) {
    max_bytes = config->profile_max_bytes;
    is_possible = ps_medium_is_size(ps_size_class_max_bytes, 1);
    ps_alloc_set_refill_max(ps_size_class_max_bytes);
    if (config->profile) {
        ps_lock_acquire(&demand_lock);
        begin(PS_DEMAND_FILE);
        ps_lock_release(&demand_lock);
    }
}

PS_AT_START void ps_demand_tick(void) {
    bool is_attached = ps_probe_is_attached();
    bool is_known = (ps_demand_now() & PS_DEMAND_PROBES) != 0;
    if (PS_LIKELY(is_attached == is_known) || !ps_lock_try(&demand_lock)) {
        return;
    }
    if (is_attached) {
        begin(PS_DEMAND_PROBES);
    } else {
        end(PS_DEMAND_PROBES);
    }
    ps_lock_release(&demand_lock);
}

/* The next tick repeats what another thread was doing: a table that was being made is not noted
 * yet.
 */
void ps_demand_fork_child(void) { (void)ps_lock_fork_child(&demand_lock); }
