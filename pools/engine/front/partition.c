/* SPDX-License-Identifier: MIT */
/*
 * See partition.h. Lock: table_lock, for the table and the list of records without a partition.
 */
#include "pools/engine/front/partition.h"

#include "pools/engine/front/store.h"
#include "pools/engine/front/store_lists.h"
#include "pools/engine/page/metadata.h"

#include <string.h>

static struct ps_lock table_lock = PS_LOCK_INIT(PS_RANK_PARTITIONS);
struct ps_partition **ps_partition_x_chunks[PS_PARTITIONS / PS_PARTITION_CHUNK];
static struct ps_partition *first_free;
uint32_t ps_partition_x_end;

/* ---- the table ---- */

struct ps_partition *ps_partition_at(uint32_t index) {
    if (index >= ps_partition_end()) {
        return NULL;
    }
    /* relaxed, both: written before the end was raised. */
    return ps_load_relaxed(&ps_load_relaxed(
        &ps_partition_x_chunks[index / PS_PARTITION_CHUNK])[index % PS_PARTITION_CHUNK]);
}

static struct ps_partition *make_locked(void) {
    uint32_t index = ps_partition_x_end;
    if (index == PS_PARTITIONS) {
        return NULL;
    }
    struct ps_partition ***chunk = &ps_partition_x_chunks[index / PS_PARTITION_CHUNK];
    if (*chunk == NULL) {
        ps_store_relaxed(chunk,
                         ps_metadata_take(PS_PARTITION_CHUNK * sizeof **chunk)); /* see above */
    }
    struct ps_partition *made = *chunk != NULL ? ps_metadata_take(sizeof *made) : NULL;
    if (made != NULL) {
        made->index = index;
        ps_extents_make(&made->extents);
        ps_store_relaxed(&(*chunk)[index % PS_PARTITION_CHUNK], made); /* relaxed: see above */
        /* release: pairs with ps_partition_end; the record is complete, and without a partition. */
        ps_store_release(&ps_partition_x_end, index + 1);
    }
    return made;
}

void ps_partition_set_name(struct ps_partition *partition, const char *name) {
    size_t length = name != NULL ? strnlen(name, PS_PARTITION_NAME_BYTES - 1) : 0;
    memset(partition->name, 0, sizeof partition->name);
    memcpy(partition->name, name != NULL ? name : "", length);
}

struct ps_partition *ps_partition_begin(const char *name, uint64_t limit_bytes) {
    ps_lock_acquire(&table_lock);
    struct ps_partition *partition = NULL;
    if (table_lock.depth == 0) {
        partition = first_free;
        first_free = partition != NULL ? partition->next_free : NULL;
        partition = partition != NULL ? partition : make_locked();
    }
    ps_lock_release(&table_lock);
    if (partition == NULL) {
        return NULL;
    }
    ps_partition_set_name(partition, name);
    partition->x_live_bytes = 0;
    partition->x_live_count = 0;
    partition->x_large_bytes = 0;
    partition->x_large_count = 0;
    partition->x_made_count = 0;
    partition->x_peak_bytes = 0;
    partition->x_refused_count = 0;
    partition->x_limit_bytes = limit_bytes;
    partition->is_object = false;
    partition->x_generation++;
    /* release: a reader of the table finds a partition that is complete. */
    ps_store_release(&partition->x_state, (uint32_t)PS_PARTITION_LIVE);
    return partition;
}

void ps_partition_end_record(struct ps_partition *partition) {
    /* relaxed: under the lock, another thread gets it. */
    ps_store_relaxed(&partition->x_state, (uint32_t)PS_PARTITION_NONE);
    ps_lock_acquire(&table_lock);
    if (table_lock.depth == 0) {
        partition->next_free = first_free;
        first_free = partition;
    }
    ps_lock_release(&table_lock);
}

/* ---- counts ---- */

/* relaxed, all: a snapshot. */
void ps_partition_read(const struct ps_partition *partition, struct ps_partition_use *use) {
    const struct ps_extents *extents = &partition->extents;
    *use = (struct ps_partition_use){
        .live_bytes = ps_load_relaxed(&partition->x_live_bytes),
        .live_count = ps_load_relaxed(&partition->x_live_count),
        .large_bytes = ps_load_relaxed(&partition->x_large_bytes),
        .large_count = ps_load_relaxed(&partition->x_large_count),
        .made_count = ps_load_relaxed(&partition->x_made_count),
        .peak_bytes = ps_load_relaxed(&partition->x_peak_bytes),
        .limit_bytes = ps_load_relaxed(&partition->x_limit_bytes),
        .refused_count = ps_load_relaxed(&partition->x_refused_count),
        .mapped_bytes = ps_load_relaxed(&extents->x_used) << PS_GRANULE_SHIFT,
        .held_bytes = ps_load_relaxed(&extents->x_dirty_free) << PS_GRANULE_SHIFT,
    };
}

/* ---- stores ---- */

bool ps_partition_make_store(struct ps_partition *partition, uint32_t class_index) {
    struct ps_store *none = NULL;
    struct ps_store *made = ps_metadata_take(sizeof *made);
    if (made == NULL) {
        return false;
    }
    ps_store_set_rank(made);
    /* release: it is zero. Two threads at the same moment both make one; one is lost. */
    return ps_cas_strong_acq_rel(&partition->x_stores[class_index], &none, made) || none != NULL;
}

size_t ps_partition_take(struct ps_partition *partition, uint32_t class_index, void **blocks,
                         size_t most) {
    return ps_store_take_from(ps_partition_store(partition, class_index), blocks, most, NULL);
}

/* ---- the end ---- */

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

void ps_partition_fork_child(void) { (void)ps_lock_fork_child(&table_lock); }
