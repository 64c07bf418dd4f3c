/* SPDX-License-Identifier: MIT */
/*
 * See large_length.h. Locks only through the page layer.
 */
#include "pools/engine/heap/large_length.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"

static struct ps_large *large_of(struct ps_slot *slot) { return (struct ps_large *)slot; }

static size_t granules_for(size_t bytes) {
    return (bytes + PS_GRANULE_BYTES - 1) >> PS_GRANULE_SHIFT;
}

static size_t capacity_of(const struct ps_slot *slot) {
    return (size_t)slot->run.granules << PS_GRANULE_SHIFT;
}

bool ps_large_extend_run(struct ps_slot *slot, size_t bytes, bool *is_clean) {
    size_t granules = granules_for(bytes);
    *is_clean = true;
    return granules <= slot->run.granules || (!ps_large_is_mapping_size(bytes) &&
                                              ps_page_cache_extend(&slot->run, granules, is_clean));
}

void *ps_large_resize_run(struct ps_slot *slot, size_t bytes) {
    size_t granules = granules_for(bytes);
    bool is_clean;
    if (granules < slot->run.granules) {
        ps_page_cache_shrink(&slot->run, granules);
    } else if (!ps_large_extend_run(slot, bytes, &is_clean)) {
        return NULL;
    }
    large_of(slot)->bytes = bytes;
    return slot->run.base;
}

void ps_large_drop_behind(const struct ps_run *run, size_t bytes) {
    size_t capacity = (size_t)run->granules << PS_GRANULE_SHIFT;
    if (bytes < capacity && ps_hugetlb_purge(run, run->base + bytes, capacity - bytes)) {
        ps_purge_count(capacity - bytes);
    }
}

void *ps_large_resize_apart(struct ps_slot *slot, size_t bytes, bool is_guarded) {
    size_t old_bytes = large_of(slot)->bytes;
    size_t capacity = capacity_of(slot);
    struct ps_partition *partition = ps_large_partition(slot);
    if (is_guarded || bytes > capacity || bytes < old_bytes / 2 ||
        (bytes > old_bytes && !ps_partition_recharge(partition, bytes - old_bytes))) {
        return bytes == old_bytes ? slot->run.base : NULL;
    }
    if (bytes < old_bytes) {
        ps_large_drop_behind(&slot->run, bytes);
        ps_partition_recharge(partition, bytes - old_bytes);
    }
    large_of(slot)->bytes = bytes;
    return slot->run.base;
}

bool ps_large_set_length(struct ps_slot *slot, size_t bytes) {
    size_t capacity = capacity_of(slot);
    if (bytes > (size_t)PTRDIFF_MAX - PS_GRANULE_BYTES) {
        return false;
    }
    bytes = ps_round_up(bytes, ps_os_page_bytes());
    if (PS_UNLIKELY(large_of(slot)->extent != NULL)) {
        return ps_large_resize_apart(slot, bytes, false) != NULL;
    }
    if (ps_limit_is_on() && bytes > capacity && !ps_limit_make_room(bytes - capacity)) {
        return false;
    }
    if (slot->run.kind == PS_RUN_BLOCK) {
        return ps_large_resize_run(slot, bytes) != NULL;
    }
    if (bytes > capacity) { /* a mapping grows by moving */
        return false;
    }
    ps_large_drop_behind(&slot->run, bytes);
    large_of(slot)->bytes = bytes;
    return true;
}
