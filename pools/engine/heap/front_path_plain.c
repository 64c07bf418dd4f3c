/* SPDX-License-Identifier: MIT */
/*
 * See front_path.h: the entry points of the plain mode that are given a block. They call the paths
 * of all kinds of blocks, which call front_path.c. No locks of its own.
 */
#include "pools/engine/heap/front_path.h"

#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/partition_path.h"

/* ---- free ---- */

#define INHERITED_FREES 16 /* between two slow calls that count */

/* A block that was allocated before this process was forked. Its page is shared with the parent
 * until it is written to: so the block does not pass a front. */
static void free_inherited(const struct ps_slab *slab, void *block) {
    if (PS_UNLIKELY(ps_mark_is_set(block))) {
        ps_front_free_misused(block);
    }
    ps_counting_follow();
    ps_store_give_range(slab->class_index, block, 1);
    ps_counting_note_free(ps_slab_class(slab)->block_bytes);
    if (++ps_front_thread.inherited_frees % INHERITED_FREES == 0) {
        ps_maintenance_tick();
    }
}

void ps_front_free_of_slab(struct ps_slab *slab, void *block) {
    if (PS_UNLIKELY(!ps_slab_has_block(slab, block) || ps_slab_is_free(slab, block))) {
        ps_slab_misuse(slab, block, PS_MISUSE_FREE);
    }
    if (PS_UNLIKELY(slab->extent != NULL)) {
        ps_partition_free_small(slab, block);
    } else if (ps_slab_is_inherited(slab)) {
        free_inherited(slab, block);
    } else {
        ps_front_free_class(&ps_front_table, slab->class_index, block);
    }
}

void ps_front_free_plain(void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    if (PS_LIKELY(ps_block_is_medium(slot))) {
        ps_medium_free(slot, block);
    } else {
        struct ps_slab *slab = ps_slab_holding(slot, block);
        if (PS_LIKELY(slab != NULL)) {
            ps_front_free_of_slab(slab, block);
        } else {
            ps_free_large(slot, block);
        }
    }
}

/* ---- realloc ---- */

size_t ps_front_usable(const void *block, enum ps_misuse_call call) {
    struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    if (slab == NULL) {
        return 0;
    }
    if (PS_UNLIKELY(!ps_slab_has_block(slab, block) || ps_mark_is_set(block) ||
                    ps_slab_is_free(slab, block))) {
        ps_slab_misuse(slab, block, call);
    }
    return ps_slab_class(slab)->block_bytes;
}

size_t ps_front_usable_plain(const void *block) {
    size_t room = ps_front_usable(block, PS_MISUSE_SIZE);
    return PS_LIKELY(room != 0) ? room : ps_usable_large(ps_page_map_slot(block), block);
}

size_t ps_front_resize_in_place(void *block, size_t bytes) {
    size_t room = ps_front_usable(block, PS_MISUSE_REALLOC);
    if (room == 0) {
        struct ps_slot *slot = ps_page_map_slot(block);
        room = ps_usable_large(slot, block);
        if (ps_block_is_large(slot, block) && ps_resize_exactly(slot, block, bytes)) {
            ps_counting_note_resize(room, block);
            room = ps_large_usable(slot, block);
        }
    }
    return room;
}

void *ps_front_resize_plain(void *block, size_t bytes) {
    size_t room = ps_front_usable(block, PS_MISUSE_REALLOC);
    if (PS_UNLIKELY(room == 0)) {
        return ps_resize_large(ps_page_map_slot(block), block, bytes);
    }
    return ps_resize_stays(room, bytes) ? block : ps_resize_by_copy(block, room, bytes);
}
