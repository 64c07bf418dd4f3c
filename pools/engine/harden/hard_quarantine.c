/* SPDX-License-Identifier: MIT */
/*
 * See hard_quarantine.h.
 */
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/transit.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/front/store.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

#define HELD_LIMIT 256 /* quarantined blocks per class and shard; at level 2 an eighth of that */
#define HELD_LEAST 4
#define HELD_BYTES ((size_t)512 << 10) /* and their bytes, likewise */

struct ps_hard_table ps_hard_table;
static size_t shard_bytes;

static size_t places_of(size_t block_bytes) {
    size_t share = ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? 1 : 8;
    size_t places = ps_max(HELD_BYTES / share / block_bytes, HELD_LEAST);
    return ps_min(places, HELD_LIMIT / share);
}

void ps_hard_quarantine_start(void) {
    size_t all = 0;
    for (uint32_t i = 0; i < ps_size_class_all_count; i++) {
        size_t count = places_of(ps_size_classes[i].block_bytes);
        ps_hard_table.places[i] = (struct ps_hard_places){(uint16_t)all, (uint16_t)count};
        all += count;
    }
    shard_bytes = sizeof(struct ps_hard_shard) + all * sizeof(void *);
}

static PS_COLD struct ps_hard_shard *make_shard(size_t index) {
    struct ps_hard_shard *none = NULL;
    struct ps_hard_shard *made = ps_metadata_map(ps_round_up(shard_bytes, PS_GRANULE_BYTES));
    if (made == NULL) {
        return NULL;
    }
    made->x_random = ps_os_random();
    /* release: pairs with ps_hard_shard_here. If two threads make it at the same moment,
     * one mapping is lost, of which one word was touched. */
    return ps_cas_strong_acq_rel(&ps_hard_table.x_shards[index], &none, made) ? made : none;
}

struct ps_hard_shard *ps_hard_make_shard_here(void) {
    size_t index = ps_hard_shard_index();
    struct ps_hard_shard *shard = ps_load_acquire(&ps_hard_table.x_shards[index]); /* its maker */
    return PS_LIKELY(shard != NULL) ? shard : make_shard(index);
}

/* Calls `visit` for the places of each class in each shard. */
static void walk(void (*visit)(uint32_t class_index, void **places, size_t count)) {
    for (size_t i = 0; i < PS_HARD_SHARDS; i++) {
        /* acquire: as in ps_hard_shard_here. */
        struct ps_hard_shard *shard = ps_load_acquire(&ps_hard_table.x_shards[i]);
        for (uint32_t class_index = 0; shard != NULL && class_index < ps_size_class_all_count;
             class_index++) {
            const struct ps_hard_places *places = &ps_hard_table.places[class_index];
            visit(class_index, &shard->x_held[places->first], places->count);
        }
    }
}

/* Blocks of a partition with fronts count as live until they return to the store. */
static void count_returned(uint32_t class_index, const void *block) {
    const struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    bool is_apart = slab != NULL && slab->extent != NULL; /* in a child the slab may have ended */
    struct ps_partition *partition = is_apart ? ps_partition_of_slab(slab) : NULL;
    if (PS_UNLIKELY(partition != NULL && partition->fronts != NULL)) {
        ps_partition_count(partition, class_index, (uint64_t)-1);
    }
}

static void flush_class(uint32_t class_index, void **places, size_t count) {
    void *blocks[HELD_LIMIT];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (ps_load_relaxed(&places[i]) != NULL) {                 /* relaxed: exchanged below */
            blocks[found] = ps_exchange_acquire(&places[i], NULL); /* acquire: the block's zeroes */
            found += blocks[found] != NULL;
        }
    }
    for (size_t i = 0; i < found; i++) {
        count_returned(class_index, blocks[i]);
    }
    for (size_t i = 0; i < found; i += PS_STORE_BATCH) {
        ps_store_give(class_index, &blocks[i], ps_min(found - i, PS_STORE_BATCH));
    }
}

void ps_hard_flush(void) {
    uint32_t phase = ps_transit_begin();
    walk(flush_class);
    ps_transit_end(phase);
}

static void fork_class(uint32_t class_index, void **places, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (places[i] != NULL) {
            count_returned(class_index, places[i]);
            ps_store_fork_add(class_index, places[i]);
            places[i] = NULL;
        }
    }
}

void ps_hard_fork_blocks(void) { walk(fork_class); }

size_t ps_hard_count(uint32_t class_index) {
    const struct ps_hard_places *places = &ps_hard_table.places[class_index];
    size_t found = 0;
    for (size_t i = 0; i < PS_HARD_SHARDS; i++) {
        /* acquire: as in ps_hard_shard_here. */
        struct ps_hard_shard *shard = ps_load_acquire(&ps_hard_table.x_shards[i]);
        for (size_t k = 0; shard != NULL && k < places->count; k++) {
            found += ps_load_relaxed(&shard->x_held[places->first + k]) != NULL; /* a snapshot */
        }
    }
    return found;
}
