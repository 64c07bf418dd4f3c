/* SPDX-License-Identifier: MIT */
/*
 * See partition.h. Lock: table_lock, for the table and the list of records without a partition.
 */
#include "pools/engine/front/partition.h"

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

void ps_partition_fork_child(void) { (void)ps_lock_fork_child(&table_lock); }
