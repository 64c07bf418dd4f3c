/* SPDX-License-Identifier: MIT */
/*
 * See level.h. Small blocks pass through hard.c. No locks of its own.
 */
#include "pools/engine/harden/level.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/promise.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/bytes.h"

#include <errno.h>

#define SHUT_BYTES ((size_t)256 << 10) /* of a quarantined large block, at level 2 */

bool ps_level_2_start(const struct ps_config *config) {
    bool is_long = config->harden == PS_HARDEN_LONG_QUARANTINE;
    ps_hard_large_start(is_long ? PS_HARD_LARGE_WHOLE : SHUT_BYTES);
    ps_stray_start(config);
    ps_hard_start(config);
    ps_guard_start(config);
    ps_block_has_promises = true;
    return true;
}

/* Blocks from hard.c are zero, except samples. */
void *ps_level_2_zalloc(size_t bytes) {
    if (bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_front_count_large(ps_large_zalloc(bytes), bytes);
    }
    void *block = ps_hard_malloc(bytes);
    return block != NULL && ps_guard_period != 0 ? ps_bytes_zero_block(block, bytes) : block;
}

void *ps_level_2_alloc_aligned(size_t bytes, size_t align) {
    if (PS_UNLIKELY(bytes == 0 && align <= PS_ZERO_ALIGN)) {
        return ps_zero_alloc();
    }
    size_t wanted = ps_max(bytes, 1) + ps_hard_extra_bytes;
    uint32_t class_index = wanted < bytes ? PS_CLASS_NONE : ps_size_class_of_aligned(wanted, align);
    if (class_index == PS_CLASS_NONE) {
        return ps_front_count_large(ps_large_alloc(bytes, align, NULL), bytes);
    }
    return ps_hard_alloc(class_index, bytes, ps_size_classes[class_index].block_bytes);
}

void *ps_level_2_alloc_in(struct ps_partition *partition,
                          const struct ps_partition_request *request) {
    size_t wanted = ps_max(request->bytes, 1) + ps_hard_extra_bytes;
    uint32_t class_index =
        wanted < request->bytes ? PS_CLASS_NONE : ps_size_class_of_apart(wanted, request->align);
    return class_index == PS_CLASS_NONE ? ps_partition_alloc_large(partition, request)
                                        : ps_hard_alloc_in(partition, class_index, request->bytes);
}

/* Resizes in place if the block fits and at least half of it remains in use, or there is no memory
 * for another one. */
void *ps_level_2_resize(void *block, size_t bytes) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_slab *slab = ps_slab_holding(slot, block);
    if (PS_UNLIKELY(slab == NULL)) {
        return ps_resize_large(slot, block, bytes);
    }
    size_t usable = ps_hard_usable(slab, block, PS_MISUSE_REALLOC);
    size_t room = ps_slab_class(slab)->block_bytes - ps_hard_extra_bytes;
    if (bytes > room || bytes < room / 2) {
        int saved_errno = errno;
        void *resized = ps_resize_by_copy(block, usable, bytes);
        if (resized != block && (resized != NULL || bytes > room)) {
            return resized;
        }
        errno = saved_errno;
    }
    ps_hard_resize(slab, block, bytes);
    return block;
}

size_t ps_level_2_usable(const void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_slab *slab = ps_slab_holding(slot, block);
    return PS_LIKELY(slab != NULL) ? ps_hard_usable(slab, block, PS_MISUSE_SIZE)
                                   : ps_usable_large(slot, block);
}

void ps_level_2_end_partition(void) {
    ps_hard_flush();
    ps_level_1_end_partition();
}

void ps_level_2_reclaim(void) {
    ps_hard_large_flush();
    ps_hard_flush();
    ps_maintenance_reclaim();
}
