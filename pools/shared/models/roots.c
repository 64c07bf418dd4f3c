/* SPDX-License-Identifier: MIT */
/*
 * Names of a shared heap, added, set and claimed while they are looked up: a name that is found is
 * whole, the block that it leads to is seen as it was when it was named, and of two claims both
 * have the same outcome. The lock is one step. Sources and faults to find: roots.model.
 */
#include "pools/shared/shared.h"

#include <explore.h>

enum { BLOCK = 16 };

static struct shared_header header;
static struct ps_shared heap;
static uint64_t block; /* at offset BLOCK, as far as the model goes */
static uint32_t x_lock;
static ps_offset claimed[2];

struct ps_offset_memory ps_shared_enter(struct ps_shared *entered) {
    uint32_t free_lock;
    (void)entered;
    do { /* ends: the explorer finds deadlocks */
        explore_until_zero(&x_lock);
        free_lock = 0;
    } while (!ps_cas_strong_acquire(&x_lock, &free_lock, 1));
    return (struct ps_offset_memory){NULL, NULL, NULL};
}

void ps_shared_leave(struct ps_shared *left) {
    (void)left;
    ps_store_release(&x_lock, 0);
}

static void set_up(void) { heap.view.base = (char *)&header; }

static void set_up_named(void) {
    set_up();
    header.names[0].text[0] = 'a';
    header.x_name_count = 1;
}

static void name_block(void) {
    explore_use(&block, sizeof block);
    EXPLORE_ASSERT(ps_shared_set_root(&heap, "a", BLOCK));
}

static void name_other(void) { EXPLORE_ASSERT(ps_shared_set_root(&heap, "b", 2 * BLOCK)); }

static void find_block(void) {
    ps_offset found = ps_shared_root(&heap, "a");
    EXPLORE_ASSERT(found == 0 || found == BLOCK);
    if (found != 0) {
        explore_use(&block, sizeof block);
    }
}

static void claim_one(void) { claimed[0] = ps_shared_claim_root(&heap, "a", BLOCK); }

static void claim_two(void) { claimed[1] = ps_shared_claim_root(&heap, "a", 2 * BLOCK); }

static void check_both(void) {
    EXPLORE_ASSERT(ps_shared_root(&heap, "a") == BLOCK);
    EXPLORE_ASSERT(ps_shared_root(&heap, "b") == 2 * BLOCK);
    EXPLORE_ASSERT(ps_shared_root_name(&heap, 2) == NULL);
}

static void check_named(void) { EXPLORE_ASSERT(ps_shared_root(&heap, "a") == BLOCK); }

static void check_claims(void) {
    EXPLORE_ASSERT(claimed[0] == claimed[1] && claimed[0] == ps_shared_root(&heap, "a"));
    EXPLORE_ASSERT(claimed[0] == BLOCK || claimed[0] == 2 * BLOCK);
}

const struct explore_scenario explore_scenarios[] = {
    {"added", set_up, {name_block, find_block}, check_named, false},
    {"set", set_up_named, {name_block, find_block}, check_named, false},
    {"two", set_up, {name_block, name_other, find_block}, check_both, false},
    {"claimed", set_up, {claim_one, claim_two}, check_claims, false},
    {NULL, NULL, {NULL}, NULL, false},
};
