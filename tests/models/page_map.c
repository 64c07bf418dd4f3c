/* SPDX-License-Identifier: MIT */
/*
 * The page map: two threads cover the same addresses, and each describes a granule of its own. The
 * slot must be found by a thread that receives an address of it, and a lookup of a foreign address
 * finds none. Sources, bounds and planted faults: page_map.model.
 */
#include "pools/engine/os/lock.h"

#include <world.h>

static struct ps_lock map_lock = PS_LOCK_INIT(PS_RANK_PAGE);
static void *x_mail[EXPLORE_THREADS + 1]; /* an address, from its thread to a lookup */
static char foreign[64];

static void make(void) {
    ps_lock_acquire(&map_lock);
    bool is_covered = world_cover();
    ps_lock_release(&map_lock);
    EXPLORE_ASSERT(is_covered);
    char *base = world_granule(explore_thread() - 1);
    struct ps_slot *slot = ps_page_map_slot(base);
    slot->run.base = base;
    ps_store_relaxed(&slot->run.kind, (uint8_t)PS_RUN_BUSY);
    ps_store_release(&x_mail[explore_thread()], (void *)(base + 16));
}

static void look_up(unsigned thread) {
    char *address = ps_load_acquire(&x_mail[thread]);
    if (address != NULL) {
        const struct ps_slot *slot = ps_page_map_slot(address);
        EXPLORE_ASSERT(ps_load_relaxed(&slot->run.kind) == PS_RUN_BUSY);
        EXPLORE_ASSERT(slot->run.base == address - 16);
    }
}

static void look_up_both(void) {
    look_up(1);
    look_up(2);
}

static void look_up_foreign(void) {
    const struct ps_slot *slot = ps_page_map_slot(foreign);
    EXPLORE_ASSERT(ps_load_relaxed(&slot->run.kind) == PS_RUN_NONE);
}

static void found(void) {
    look_up_both();
    look_up_foreign();
}

static void set_up(void) {}

const struct explore_scenario explore_scenarios[] = {
    {"lookup", set_up, {make, make, look_up_both}, found, false},
    {"foreign", set_up, {make, make, look_up_foreign}, found, false},
    {NULL, NULL, {NULL}, NULL, false},
};
