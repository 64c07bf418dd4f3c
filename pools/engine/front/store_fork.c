/* SPDX-License-Identifier: MIT */
/*
 * See store.h: the store in the child of a fork, on its only thread. The bitmaps are right at each
 * instant, the lists and counts are not: they are made anew from the slots of all granules.
 */
#include "pools/engine/front/store.h"

#include "pools/engine/front/partition.h"
#include "pools/engine/front/slab_bits.h"
#include "pools/engine/front/store_lists.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/node.h"

#include <string.h>

void ps_store_fork_add(uint32_t class_index, void *block) {
    struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    if (slab == NULL || slab->class_index != class_index || !ps_slab_has_block(slab, block) ||
        ps_lock_is_own(&ps_store_of(slab)->lock)) {
        return;
    }
    size_t index = ps_slab_index(slab, block);
    ps_slab_set_word(&slab->bits[index / 64], slab->bits[index / 64] | (uint64_t)1 << index % 64);
    ps_slab_raise_fresh(slab, index + 1);
}

static size_t count_free(const struct ps_slab *slab) {
    size_t count = 0;
    for (size_t w = 0; w < (size_t)(ps_slab_class(slab)->limit + 63) / 64; w++) {
        count += (size_t)__builtin_popcountll(slab->bits[w]);
    }
    return count;
}

/* The bitmap may be newer than the slot. */
static void raise_fresh_to_used(struct ps_slab *slab) {
    for (;;) { /* ends: fresh rises */
        size_t most = (size_t)(ps_slab_class(slab)->limit - slab->fresh);
        size_t length = ps_slab_run_length(slab, slab->fresh, most);
        if (length == most) {
            return;
        }
        ps_slab_raise_fresh(slab, slab->fresh + length + 1);
    }
}

static void rebuild(struct ps_slot *slot) {
    struct ps_slab *slab = (struct ps_slab *)slot;
    if (slot->run.kind != PS_RUN_SLAB) {
        return;
    }
    ps_store_count_slabs(slab->class_index, 1);
    struct ps_store *store = ps_store_of(slab);
    if (store == NULL || !store->is_rebuilt) {
        return;
    }
    size_t count = count_free(slab);
    if (count == 0 && slab->x_free_count == 0 && slab->place == 0) {
        return; /* its page need not be copied */
    }
    raise_fresh_to_used(slab);
    ps_slab_set_free_count(slab, 0);
    slab->place = 0;
    ps_store_add_free(store, slab, count);
    ps_store_count_purged(store, ps_slab_purged_count(slab));
    ps_store_count_drained(store, ps_slab_is_drained(slab));
}

static void clear_tag(const char *granule) {
    if (ps_page_map_tag(granule) != 0) { /* else its page need not be copied */
        ps_page_map_set_tag(granule, 0);
    }
}

/* By granules: the lengths of runs may be half written. */
static void walk_granules(bool rebuilds) {
    for (size_t i = 0; i < ps_page_arena_count(); i++) {
        const struct ps_page_arena *arena = ps_page_arena_at(i);
        for (size_t k = 0; k < arena->granules; k++) {
            const char *granule = arena->base + (k << PS_GRANULE_SHIFT);
            if (rebuilds) {
                rebuild(ps_page_map_slot(granule));
            }
            clear_tag(granule); /* last: rebuild sets it */
        }
    }
}

static void clear_counts(void) {
    for (uint32_t i = 0; i < ps_size_class_all_count; i++) {
        ps_store_relaxed(&ps_store_x_counts[i].x_slabs, (uint64_t)0); /* relaxed: one thread */
    }
}

/* Repairs the lock of a store, and empties its lists if they are to be made anew. Returns whether
 * they are. */
static bool begin_store(struct ps_store *store, bool had_others) {
    bool is_left_behind = ps_lock_is_left_behind(&store->lock);
    bool is_chosen = ps_lock_fork_child(&store->lock) && (had_others || is_left_behind);
    if (is_chosen) {
        memset(store->lists, 0, sizeof store->lists);
        store->nonempty = 0;
        store->drained = 0;
        store->x_free = 0;
        store->x_purged = 0;
    }
    if (store->is_rebuilt != is_chosen) { /* else its page need not be copied */
        store->is_rebuilt = is_chosen;
    }
    return is_chosen;
}

static bool begin_partition(struct ps_partition *partition, bool had_others) {
    bool is_any = false;
    for (uint32_t i = 0; i < ps_size_class_all_count; i++) {
        struct ps_store *store = ps_partition_store(partition, i);
        is_any |= store != NULL && begin_store(store, had_others);
    }
    return is_any;
}

static bool begin_partitions(bool had_others) {
    bool is_any = false;
    for (uint32_t k = 0; k < ps_partition_end(); k++) {
        struct ps_partition *partition = ps_partition_at(k);
        is_any |= partition != NULL && begin_partition(partition, had_others);
    }
    for (uint32_t parts = ps_partition_x_parts; parts != 0; parts &= parts - 1) {
        is_any |= begin_partition(&ps_partition_parts[__builtin_ctz(parts)], had_others);
    }
    return is_any;
}

void ps_store_fork_child(bool had_others) {
    ps_partition_fork_child();
    bool is_any = begin_partitions(had_others);
    for (uint32_t node = 0; node <= ps_node_last(); node++) {
        for (uint32_t i = 0; i < ps_size_class_count; i++) {
            struct ps_store *store = ps_store_at(node, i);
            if (store == NULL) {
                break;
            }
            is_any |= begin_store(store, had_others);
        }
    }
    ps_slab_bits_fork_child();
    if (is_any) {
        clear_counts();
    }
    walk_granules(is_any);
}
