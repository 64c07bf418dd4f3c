/* SPDX-License-Identifier: MIT */
/*
 * See record.h: the counting.
 */
#include "pools/engine/record/record.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/record/record_peak.h"
#include "pools/engine/record/record_sizes.h"

#include <errno.h>

#define GRAIN_LEAST ((uint64_t)1 << 10)
#define GRAIN_MOST ((uint64_t)64 << 10)
#define GRAIN_SHARE 13 /* a shard may withhold 1/8192 of all live bytes, all of them 1/128 */

bool ps_record_x_on;
struct ps_tally *ps_record_shards;

static uint64_t x_live_bytes; /* as published */

static bool make_shards(void) {
    size_t bytes = ps_round_up(PS_RECORD_SHARDS * sizeof(struct ps_tally), PS_GRANULE_BYTES);
    ps_record_shards = ps_metadata_map(bytes);
    if (ps_record_shards == NULL) {
        return false;
    }
    ps_huge_refuse(ps_record_shards, bytes); /* touched sparsely */
    return true;
}

bool ps_record_start(const struct ps_config *config) {
    ps_stray_start(config);
    ps_record_sizes_start();
    bool is_on = make_shards() && ps_record_peak_start();
    ps_store_relaxed(&ps_record_x_on, is_on); /* relaxed: see ps_record_is_on */
    return is_on;
}

static struct ps_tally *own_shard(void) {
    return &ps_record_shards[ps_lock_self() % PS_RECORD_SHARDS];
}

/* ---- live bytes ---- */

/* relaxed, here and below: counts, by which snapshots are taken sooner or later. */

static int64_t level_of(const struct ps_tally *shard) {
    return (int64_t)ps_load_relaxed(&shard->x_level); /* relaxed: as above */
}

static int64_t grain_of(const struct ps_tally *shard) {
    return (int64_t)ps_max(ps_load_relaxed(&shard->x_grain), GRAIN_LEAST); /* relaxed: as above */
}

static uint64_t publish(struct ps_tally *shard) {
    uint64_t change = ps_exchange_relaxed(&shard->x_level, (uint64_t)0);
    uint64_t total = ps_add_relaxed(&x_live_bytes, change) + change; /* relaxed: as above */
    uint64_t grain = ps_min(ps_max(total >> GRAIN_SHARE, GRAIN_LEAST), GRAIN_MOST);
    ps_store_relaxed(&shard->x_grain, grain); /* relaxed: as above */
    return total;
}

/* Publishes. is_top: a free follows, and live bytes may be at a new height. Sets the level at which
 * the next free may take a snapshot. */
static PS_NOINLINE void publish_and_check(struct ps_tally *shard, bool is_top) {
    uint64_t total = publish(shard);
    ps_record_peak_check(total, is_top);
    uint64_t threshold = ps_record_peak_threshold();
    /* relaxed: as above. */
    ps_store_relaxed(&shard->x_top, threshold > total ? threshold - total : 0);
}

/* Called before a free is counted. */
static inline void check_top(struct ps_tally *shard) {
    /* relaxed: as above. */
    if (PS_UNLIKELY(level_of(shard) >= (int64_t)ps_load_relaxed(&shard->x_top))) {
        publish_and_check(shard, true);
    }
}

static inline void change_live(struct ps_tally *shard, int64_t bytes) {
    /* relaxed: as above. */
    int64_t level = (int64_t)ps_add_relaxed(&shard->x_level, (uint64_t)bytes) + bytes;
    if (PS_UNLIKELY(level >= grain_of(shard) || level <= -grain_of(shard))) {
        publish_and_check(shard, false);
    }
}

/* ---- counting ---- */

static inline void add_made(struct ps_tally *shard, size_t number) {
    if (PS_UNLIKELY(ps_add_relaxed(&shard->sizes[number].x_made, (uint64_t)1) == 0)) {
        ps_record_peak_first(number); /* relaxed: a count, as the next */
    }
}

static inline void add_freed(struct ps_tally *shard, size_t number) {
    ps_add_relaxed(&shard->sizes[number].x_freed, (uint64_t)1); /* relaxed: a count */
}

/* Counts a block above the size classes. */
static void count_large_made(struct ps_tally *shard, const void *block) {
    size_t bytes = ps_large_usable(ps_page_map_slot(block), block);
    ps_add_relaxed(&shard->x_large, (uint64_t)1);           /* relaxed: a count */
    ps_add_relaxed(&shard->x_large_bytes, (uint64_t)bytes); /* relaxed: as above */
    ps_record_peak_large(1, (int64_t)bytes);
    change_live(shard, (int64_t)bytes);
}

static inline void count_small_made(const void *block, size_t bytes, uint32_t class_index) {
    size_t number = ps_record_mark(block, class_index, ps_record_number_of(bytes));
    if (PS_LIKELY(number != 0)) {
        struct ps_tally *shard = own_shard();
        add_made(shard, number);
        change_live(shard, (int64_t)(number << 4));
    }
}

/* Counts a block that was just allocated, and returns it. It may be longer than one of the class:
 * exhausted.h. NULL: counts nothing. */
static void *count_made(void *block, size_t bytes) {
    if (PS_UNLIKELY(block == NULL)) {
        return NULL;
    }
    const struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    if (PS_UNLIKELY(slab == NULL)) {
        count_large_made(own_shard(), block);
    } else {
        count_small_made(block, bytes, slab->class_index);
    }
    return block;
}

/* ---- malloc ---- */

void *ps_record_alloc(size_t bytes) {
    void *block = ps_front_alloc_plain(bytes);
    if (PS_UNLIKELY(bytes > ps_size_class_max_bytes || block == NULL ||
                    ps_exhausted_has_lengthened())) {
        return count_made(block, bytes);
    }
    count_small_made(block, bytes, ps_size_class_of(bytes));
    return block;
}

/* Blocks above the classes are counted alike: ps_front_zalloc_plain calls ps_record_alloc for
 * others. */
void *ps_record_zalloc(size_t bytes) {
    void *block = ps_front_zalloc_plain(bytes);
    return bytes > ps_size_class_max_bytes ? count_made(block, bytes) : block;
}

/* Counts as a request of its size rounded up to the alignment: no smaller block can serve it. */
void *ps_record_alloc_aligned(size_t bytes, size_t align) {
    size_t wanted = ps_round_up(ps_max(bytes, 1), align);
    return count_made(ps_front_alloc_aligned_plain(bytes, align), wanted);
}

void *ps_record_alloc_in(struct ps_partition *partition,
                         const struct ps_partition_request *request) {
    size_t wanted = ps_round_up(ps_max(request->bytes, 1), ps_max(request->align, 1));
    return count_made(ps_partition_alloc_plain(partition, request), wanted);
}

/* ---- free ---- */

static void count_large_freed(struct ps_tally *shard, const struct ps_slot *slot,
                              const void *block) {
    int64_t bytes = (int64_t)ps_large_usable(slot, block);
    publish_and_check(shard, true); /* at once: more than a grain, and x_top may be out of date */
    ps_record_peak_large(-1, -bytes);
    change_live(shard, -bytes);
}

/* Before the free: another thread may take the block at once. */
void ps_record_free(void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    struct ps_slab *slab = ps_slab_holding(slot, block);
    struct ps_tally *shard = own_shard();
    if (PS_LIKELY(slab != NULL)) {
        size_t number = ps_record_marked(block, slab->class_index);
        check_top(shard);
        add_freed(shard, number);
        change_live(shard, -(int64_t)(number << 4));
        ps_front_free_of_slab(slab, block);
        return;
    }
    if (ps_block_is_large(slot, block)) {
        count_large_freed(shard, slot, block);
    }
    ps_free_large(slot, block);
}

/* ---- realloc ---- */

/* Counts a resize in place as a request. A block that has shrunk counts as before: it does not
 * move, and would not with other classes. */
static void count_resized(const struct ps_slab *slab, void *block, size_t bytes) {
    struct ps_tally *shard = own_shard();
    size_t number = ps_record_number_of(bytes);
    size_t old_number = ps_record_marked(block, slab->class_index);
    bool has_grown = number > old_number && old_number != 0;
    add_made(shard, number);
    add_freed(shard, has_grown ? old_number : number);
    if (has_grown) {
        (void)ps_record_mark(block, slab->class_index, number); /* the table exists */
        change_live(shard, (int64_t)(number - old_number) * 16);
    }
}

static void count_large_resized(size_t old_bytes, size_t bytes) {
    struct ps_tally *shard = own_shard();
    int64_t change = (int64_t)bytes - (int64_t)old_bytes;
    if (change < 0) {
        publish_and_check(shard, true); /* as in count_large_freed */
    }
    ps_record_peak_large(0, change);
    change_live(shard, change);
}

static void *resize_large(struct ps_slot *slot, void *block, size_t bytes) {
    if (!ps_block_is_large(slot, block)) {
        return ps_resize_large(slot, block, bytes);
    }
    size_t old_bytes = ps_large_usable(slot, block);
    void *resized = ps_resize_in_place(slot, block, bytes);
    if (resized == NULL) {
        return ps_resize_large(slot, block, bytes);
    }
    count_large_resized(old_bytes, ps_large_usable(ps_page_map_slot(resized), resized));
    return resized;
}

/* A resize that copies calls the functions above. */
void *ps_record_resize(void *block, size_t bytes) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_slab *slab = ps_slab_holding(slot, block);
    if (PS_UNLIKELY(slab == NULL)) {
        return resize_large(slot, block, bytes);
    }
    void *resized = ps_front_resize_plain(block, bytes);
    if (resized == block) {
        count_resized(slab, block, bytes);
    }
    return resized;
}
