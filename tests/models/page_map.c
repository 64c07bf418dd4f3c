/* SPDX-License-Identifier: MIT */
/*
 * The page map and its slots: two threads create spans in one leaf, each of which must be found by
 * a thread that receives a block of it, by a lookup of a foreign address, and by a walk over all
 * slots. Sources, bounds and planted faults: page_map.model.
 */
#include "pools/engine/page/page_cache.h"

#include "pools/engine/os/lock.h"
#include "pools/engine/small/span_remote.h"

#include <world.h>

static struct ps_lock map_lock = PS_LOCK_INIT(PS_RANK_PAGE);
static void *x_mail[EXPLORE_THREADS + 1]; /* a block, from its owner to a lookup */
static char foreign[64];

static uintptr_t key_of(unsigned thread) { return (uintptr_t)4096 * thread; }

static void set_up(void) { world_classes(2, 1); }

static void make(void) {
    ps_lock_acquire(&map_lock);
    bool is_covered = world_cover();
    ps_lock_release(&map_lock);
    EXPLORE_ASSERT(is_covered);
    struct ps_span *span = ps_span_create(0, key_of(explore_thread()));
    span->carved = span->limit;
    ps_store_release(&x_mail[explore_thread()], (void *)world_block(span, 1));
}

static void look_up(unsigned thread) {
    char *block = ps_load_acquire(&x_mail[thread]);
    if (block != NULL) {
        struct ps_span *span = ps_span_at(block);
        EXPLORE_ASSERT(ps_load_relaxed(&span->x_owner) == key_of(thread));
        EXPLORE_ASSERT(ps_load_relaxed(&span->run.kind) == PS_RUN_SPAN);
        EXPLORE_ASSERT(ps_span_index(span, block) == 1);
    }
}

static void look_up_both(void) {
    look_up(1);
    look_up(2);
}

static void look_up_foreign(void) {
    const struct ps_slot *slot = ps_page_map_slot(foreign);
    EXPLORE_ASSERT(ps_load_relaxed(&slot->run.kind) == PS_RUN_NONE);
    EXPLORE_ASSERT(ps_load_relaxed(&((const struct ps_span *)slot)->x_owner) == PS_KEY_NONE);
}

/* As record/census.c counts spans. */
static void visit(struct ps_slot *slot, void *context) {
    (void)context;
    if (ps_load_acquire(&slot->run.kind) == PS_RUN_SPAN) {
        EXPLORE_ASSERT(ps_span_capacity(ps_span_of_slot(slot)) == 2);
        EXPLORE_ASSERT(ps_span_remote_blocks(ps_span_of_slot(slot)) == 0);
    }
}

static void walk(void) { ps_page_cache_walk(visit, NULL); }

static void found(void) {
    look_up_both();
    look_up_foreign();
}

const struct explore_scenario explore_scenarios[] = {
    {"lookup", set_up, {make, make, look_up_both}, found, false},
    {"foreign", set_up, {make, make, look_up_foreign}, found, false},
    {"walk", set_up, {make, make, walk}, found, false},
    {NULL, NULL, {NULL}, NULL, false},
};
