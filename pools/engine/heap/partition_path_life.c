/* SPDX-License-Identifier: MIT */
/*
 * See partition_path.h: the life of a partition, and the counts of its blocks. No locks of its own.
 */
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/mte.h"

/* ---- counts ---- */

/* relaxed, all: counts. The last discharge of a partition that is left: see ps_partition_leave. */

bool ps_partition_is_within(const struct ps_partition *partition, uint64_t live_bytes) {
    uint64_t limit = ps_load_relaxed(&partition->x_limit_bytes);
    return limit == 0 || live_bytes <= limit;
}

void ps_partition_note_peak(struct ps_partition *partition, uint64_t live_bytes) {
    uint64_t peak = ps_load_relaxed(&partition->x_peak_bytes);
    while (live_bytes > peak &&
           !ps_cas_weak_relaxed(&partition->x_peak_bytes, &peak, live_bytes)) { /* ends: it rises */
    }
}

static bool charge_bytes(struct ps_partition *partition, uint64_t bytes) {
    uint64_t live = ps_add_relaxed(&partition->x_live_bytes, bytes) + bytes;
    if (PS_UNLIKELY(!ps_partition_is_within(partition, live))) {
        return false;
    }
    ps_partition_note_peak(partition, live);
    return true;
}

bool ps_partition_charge(struct ps_partition *partition, uint64_t bytes, bool is_large) {
    ps_add_relaxed(&partition->x_made_count, (uint64_t)1);
    ps_add_relaxed(&partition->x_live_count, (uint64_t)1);
    if (is_large) {
        ps_add_relaxed(&partition->x_large_bytes, bytes);
        ps_add_relaxed(&partition->x_large_count, (uint64_t)1);
    }
    return charge_bytes(partition, bytes);
}

bool ps_partition_recharge(struct ps_partition *partition, size_t more_bytes) {
    bool is_more = (int64_t)more_bytes > 0;
    if (!charge_bytes(partition, more_bytes) && is_more) {
        ps_add_relaxed(&partition->x_live_bytes, -(uint64_t)more_bytes);
        ps_add_relaxed(&partition->x_refused_count, (uint64_t)1);
        return false;
    }
    ps_add_relaxed(&partition->x_large_bytes, (uint64_t)more_bytes);
    return true;
}

/* Forgets a run. */
static void end_large(struct ps_slot *slot) {
    if (ps_mode.hook.end_sample != NULL && ps_block_is_large(slot, slot->run.base)) {
        ps_mode.hook.end_sample(slot->run.base);
    }
    if (slot->run.kind == PS_RUN_MAPPING) {
        ps_mapping_count_live(-1, -(int64_t)((size_t)slot->run.granules << PS_GRANULE_SHIFT));
    }
}

/* Frees all, and returns the memory. state: ENDING, of the caller. */
static void end_blocks(struct ps_partition *partition) {
    if (ps_mode.hook.end_partition != NULL) {
        ps_mode.hook.end_partition();
    }
    ps_partition_empty(partition, end_large);
}

static void end(struct ps_partition *partition) {
    end_blocks(partition);
    ps_partition_end_record(partition);
}

static bool begin_end(struct ps_partition *partition, enum ps_partition_state from) {
    uint32_t state = (uint32_t)from;
    return ps_cas_strong_seq_cst(&partition->x_state, &state, (uint32_t)PS_PARTITION_ENDING);
}

void ps_partition_discharge(struct ps_partition *partition, size_t bytes, bool is_large) {
    ps_add_relaxed(&partition->x_live_bytes, -(uint64_t)bytes);
    if (is_large) {
        ps_add_relaxed(&partition->x_large_bytes, -(uint64_t)bytes);
        ps_add_relaxed(&partition->x_large_count, (uint64_t)-1);
    }
    /* seq_cst: of this and ps_partition_leave one finds the other's. */
    uint64_t before = ps_add_seq_cst(&partition->x_live_count, (uint64_t)-1);
    if (PS_UNLIKELY(before == 1 && ps_partition_is(partition, PS_PARTITION_LEAVING) &&
                    begin_end(partition, PS_PARTITION_LEAVING))) {
        end(partition);
    }
}

/* ---- life ---- */

bool ps_partition_destroy(struct ps_partition *partition) {
    if (!begin_end(partition, PS_PARTITION_LIVE)) {
        return false;
    }
    end(partition);
    return true;
}

bool ps_partition_reset(struct ps_partition *partition) {
    if (!begin_end(partition, PS_PARTITION_LIVE)) {
        return false;
    }
    end_blocks(partition);
    ps_store_relaxed(&partition->x_live_bytes, (uint64_t)0);
    ps_store_relaxed(&partition->x_live_count, (uint64_t)0);
    ps_store_relaxed(&partition->x_large_bytes, (uint64_t)0);
    ps_store_relaxed(&partition->x_large_count, (uint64_t)0);
    ps_store_release(&partition->x_state, (uint32_t)PS_PARTITION_LIVE); /* release: all of it */
    return true;
}

bool ps_partition_leave(struct ps_partition *partition) {
    uint32_t live = PS_PARTITION_LIVE;
    if (!ps_cas_strong_seq_cst(&partition->x_state, &live, (uint32_t)PS_PARTITION_LEAVING)) {
        return false;
    }
    /* seq_cst: see ps_partition_discharge. */
    if (ps_load_seq_cst(&partition->x_live_count) == 0 &&
        begin_end(partition, PS_PARTITION_LEAVING)) {
        end(partition);
    }
    return true;
}

/* ---- blocks ---- */

static struct ps_partition *of_slab(const struct ps_slab *slab) {
    struct ps_partition *partition = slab->extent != NULL ? ps_partition_of_slab(slab) : NULL;
    return ps_partition_is_part(partition) ? NULL : partition;
}

struct ps_partition *ps_partition_of(const void *pointer) {
    if (PS_LIKELY(ps_partition_end() == 0)) {
        return NULL;
    }
    const char *block = ps_mte_strip(pointer); /* where memory is tagged */
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_slab *slab = ps_slab_holding(slot, block);
    if (slab != NULL) {
        return of_slab(slab);
    }
    bool is_large = !ps_block_is_medium(slot) && ps_block_is_large(slot, block);
    return is_large ? ps_large_partition(slot) : NULL;
}
