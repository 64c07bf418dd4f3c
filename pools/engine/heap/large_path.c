/* SPDX-License-Identifier: MIT */
/*
 * See large_path.h. medium_path.c, large.c and mapping.c have the blocks.
 */
#include "pools/engine/heap/large_path.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large_length.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/bytes.h"

#include <errno.h>

void ps_free_large(struct ps_slot *slot, void *block) {
    if (!ps_block_is_large(slot, block)) {
        ps_mode.hook.stray_free(slot, block);
        return;
    }
    if (ps_block_is_medium(slot)) {
        ps_medium_free(slot, block);
        return;
    }
    ps_counting_note_free(ps_large_usable(slot, block));
    ps_large_free(slot);
    ps_maintenance_tick_after_free();
}

size_t ps_usable_large(const struct ps_slot *slot, const void *block) {
    if (PS_LIKELY(ps_block_is_large(slot, block))) {
        return ps_large_usable(slot, block);
    }
    size_t usable = ps_mode.hook.stray_usable(slot, block, PS_MISUSE_SIZE);
    return usable != PS_STRAY_FOREIGN ? usable : 0;
}

void *ps_resize_by_copy(void *block, size_t usable, size_t bytes) {
    int saved_errno = errno;
    struct ps_partition *partition = ps_partition_of(block);
    void *copy = PS_UNLIKELY(partition != NULL) ? ps_partition_alloc(partition, bytes, 1, false)
                                                : ps_heap_alloc(bytes);
    if (PS_UNLIKELY(copy == NULL)) {
        if (bytes > usable) {
            return NULL;
        }
        errno = saved_errno;
        return ps_exhausted_note(block);
    }
    ps_bytes_copy_block(copy, block, ps_min(usable, bytes));
    ps_heap_free(block);
    return copy;
}

/* A medium block is as long as requested, to the page: one that moves to grow gets an eighth more,
 * because a block that grows in steps would otherwise be copied at each. One that shrinks out of
 * its kind moves too. */
void *ps_resize_by_move(const struct ps_slot *slot, void *block, size_t bytes) {
    size_t usable = ps_large_usable(slot, block);
    size_t roomy = usable + usable / 8;
    bool is_step = ps_block_is_medium(slot) && bytes > usable && bytes < roomy;
    int saved_errno = errno;
    void *copy = is_step ? ps_resize_by_copy(block, usable, roomy) : NULL;
    if (copy == NULL) {
        errno = saved_errno;
        copy = ps_resize_by_copy(block, usable, bytes);
    }
    return copy;
}

/* A medium block keeps its place where the request is for a medium block: whole if it is not much
 * too long, else it grows over the pages after it, or returns its end. */
static bool resize_medium(struct ps_slot *slot, void *block, size_t bytes) {
    if (bytes <= ps_size_class_max_bytes || !ps_medium_is_size(bytes, 1)) {
        return false;
    }
    return ps_medium_serves(ps_medium_usable(slot, block), bytes) ||
           ps_medium_set_length(slot, block, bytes);
}

void *ps_resize_in_place(struct ps_slot *slot, void *block, size_t bytes) {
    if (ps_block_is_medium(slot)) {
        return resize_medium(slot, block, bytes) ? block : NULL;
    }
    /* Too short for a run or a mapping: a copy returns all of it. */
    bool is_kind = bytes > PS_CLASS_BYTES_LIMIT &&
                   (!ps_medium_is_size(bytes, 1) || ps_large_partition(slot) != NULL);
    return is_kind ? ps_large_resize(slot, bytes) : NULL;
}

bool ps_resize_exactly(struct ps_slot *slot, void *block, size_t bytes) {
    if (bytes <= ps_size_class_max_bytes) {
        return false;
    }
    if (ps_block_is_medium(slot)) {
        return ps_medium_is_size(bytes, 1) && ps_medium_set_length(slot, block, bytes);
    }
    bool is_kind = ps_large_partition(slot) != NULL ? bytes > PS_CLASS_BYTES_LIMIT
                                                    : !ps_medium_is_size(bytes, 1);
    return is_kind && ps_large_set_length(slot, bytes);
}

size_t ps_resize_refused(void *block, size_t bytes) {
    (void)bytes;
    return ps_mode.entry.usable(block);
}

void *ps_resize_large(struct ps_slot *slot, void *block, size_t bytes) {
    if (PS_LIKELY(ps_block_is_large(slot, block))) {
        size_t usable = ps_large_usable(slot, block);
        void *resized = ps_resize_in_place(slot, block, bytes);
        if (resized == NULL) {
            return ps_resize_by_move(slot, block, bytes);
        }
        ps_counting_note_resize(usable, resized);
        return resized;
    }
    size_t usable = ps_mode.hook.stray_usable(slot, block, PS_MISUSE_REALLOC);
    if (PS_UNLIKELY(usable == PS_STRAY_FOREIGN)) {
        errno = ENOMEM;
        return NULL;
    }
    return ps_resize_by_copy(block, usable, bytes);
}
