/* SPDX-License-Identifier: MIT */
/*
 * See partition.h: the end of a partition. No locks of its own.
 */
#include "pools/engine/front/partition.h"
#include "pools/engine/front/store.h"
#include "pools/engine/front/store_lists.h"

struct end {
    void (*large)(struct ps_slot *slot);
};

static void end_run(struct ps_slot *slot, void *context) {
    struct ps_slab *slab = (struct ps_slab *)slot;
    if (slot->run.kind == PS_RUN_SLAB) {
        struct ps_store *store = ps_store_of(slab);
        if (ps_store_begin(store)) {
            ps_store_leave(store, slab);
            ps_store_end(store);
            ps_store_destroy(slab);
        }
    } else {
        ((const struct end *)context)->large(slot);
        ps_store_relaxed(&slot->run.kind, (uint8_t)PS_RUN_NONE); /* relaxed: free() classifies */
    }
}

void ps_partition_empty(struct ps_partition *partition, void (*end_large)(struct ps_slot *slot)) {
    struct end end = {end_large};
    ps_store_purge_stop();
    ps_extents_purge_stop(&partition->extents);
    ps_extents_walk(&partition->extents, end_run, &end);
    ps_extents_empty(&partition->extents);
    ps_extents_purge_resume();
    ps_store_purge_resume();
}
