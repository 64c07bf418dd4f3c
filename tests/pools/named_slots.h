/* SPDX-License-Identifier: MIT */
/*
 * Slot maps of objects that have a name, for the tests. Included after unit.h or fresh.h.
 */
#ifndef PS_TESTS_POOLS_NAMED_SLOTS_H
#define PS_TESTS_POOLS_NAMED_SLOTS_H

#include "tests/pools/counting_source.h"

#include <poolshim/slots.h>

struct entity {
    uint64_t name;
    char text[40];
};

__attribute__((unused)) static struct ps_slots_options options_of(struct counting_source *source) {
    return (struct ps_slots_options){.chunks = {.source = &source->source}};
}

static uint64_t insert_named(struct ps_slots *slots, uint64_t name) {
    struct entity *entity = NULL;
    uint64_t handle = ps_slots_insert(slots, (void **)&entity);
    if (handle != 0) {
        CHECK(entity != NULL);
        memset(entity, 0, sizeof *entity);
        entity->name = name;
        CHECK_EQ(ps_slots_handle(entity), handle);
    }
    return handle;
}

static uint64_t name_behind(const struct ps_slots *slots, uint64_t handle) {
    const struct entity *entity = ps_slots_get(slots, handle);
    return entity != NULL ? entity->name : 0;
}

#endif
