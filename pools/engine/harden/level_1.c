/* SPDX-License-Identifier: MIT */
/*
 * See level.h. malloc takes the fast path. free zeroes the block, and then puts it into the
 * thread's front as usual: a block there reads as zero, except for its mark. Free streaks would
 * delay that: without tags none opens. No locks of its own.
 */
#include "pools/engine/harden/level.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/harden/promise.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/harden/transit.h"
#include "pools/engine/harden/wipe.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/os.h"

bool ps_level_1_start(const struct ps_config *config) {
    ps_stray_start(config);
    ps_hard_start(config);
    ps_guard_start(config);
    ps_block_has_promises = true;
    return true;
}

/* ---- malloc ---- */

void *ps_level_1_alloc(size_t bytes) {
    return PS_UNLIKELY(bytes == 0) ? ps_zero_alloc() : ps_guard_alloc(bytes);
}

void *ps_level_1_zalloc(size_t bytes) {
    return PS_UNLIKELY(bytes == 0) ? ps_zero_alloc() : ps_guard_zalloc(bytes);
}

void *ps_level_1_alloc_aligned(size_t bytes, size_t align) {
    return bytes == 0 && align <= PS_ZERO_ALIGN ? ps_zero_alloc()
                                                : ps_front_alloc_aligned_plain(bytes, align);
}

/* ---- free ---- */

void ps_level_1_free(void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    struct ps_slab *slab = ps_slab_holding(slot, block);
    if (PS_UNLIKELY(slab == NULL)) {
        ps_free_large(slot, block);
        return;
    }
    if (PS_UNLIKELY(!ps_slab_has_block(slab, block) || ps_mark_is_set(block) ||
                    ps_slab_is_free(slab, block))) {
        ps_slab_misuse(slab, block, PS_MISUSE_FREE);
    }
    size_t class_index = slab->class_index;
    ps_wipe(block, ps_size_classes[class_index].block_bytes);
    if (PS_UNLIKELY(slab->extent != NULL)) {
        ps_partition_free_small(slab, block);
        return;
    }
    ps_mark_set(block); /* first: another thread may take it at once */
    ps_front_put(ps_front_table_base(), class_index, block);
}

/* ---- realloc ---- */

/* Zeroes the part that a run loses when it is cut in place. */
static void *resize_large(struct ps_slot *slot, void *block, size_t bytes) {
    /* relaxed: set before the block existed. */
    bool is_run = ps_load_relaxed(&slot->run.kind) == PS_RUN_BLOCK && slot->run.base == block;
    size_t usable = is_run ? ps_large_usable(slot, block) : 0;
    if (bytes > PS_CLASS_BYTES_LIMIT && bytes < usable) {
        size_t kept = ps_round_up(bytes, ps_os_page_bytes()); /* usable is a multiple of it */
        ps_large_make_zero((char *)block + kept, usable - kept);
    }
    return ps_resize_large(slot, block, bytes);
}

/* As in the plain mode, but preserves the block's class, by which a claimed size is checked. */
void *ps_level_1_resize(void *block, size_t bytes) {
    size_t room = ps_front_usable(block, PS_MISUSE_REALLOC);
    if (PS_UNLIKELY(room == 0)) {
        return resize_large(ps_page_map_slot(block), block, bytes);
    }
    bool stays = ps_resize_stays(room, bytes) &&
                 ps_size_classes[ps_size_class_of(bytes)].block_bytes == room;
    return stays ? block : ps_resize_by_copy(block, room, bytes);
}

/* ---- hooks ---- */

void ps_level_1_release_run(struct ps_run *run) {
    ps_large_make_zero(run->base, ps_large_usable(ps_slot_of_run(run), run->base));
    ps_hard_large_hold(run);
}

void ps_level_1_reclaim(void) {
    ps_hard_large_flush();
    ps_maintenance_reclaim();
}

void ps_level_1_end_partition(void) {
    ps_hard_large_flush();
    ps_transit_settle();
}

void ps_level_1_fork_child(void) {
    ps_transit_fork_child();
    ps_guard_fork_child();
    ps_hard_large_fork_child();
}
