/* SPDX-License-Identifier: MIT */
/*
 * See partition_path.h: allocation and free. No locks of its own.
 */
#include "pools/engine/heap/partition_path.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/os/mte.h"

#include <errno.h>

#define FREES 64 /* between two slow calls that count */

/* ---- begin ---- */

struct ps_partition *ps_partition_create(const char *name, uint64_t limit_bytes) {
    if (PS_UNLIKELY(!ps_engine_may_serve())) {
        errno = EAGAIN;
        return NULL;
    }
    struct ps_partition *partition = ps_partition_begin(name, limit_bytes);
    if (partition == NULL) {
        errno = ps_partition_end() == PS_PARTITIONS ? EAGAIN : ENOMEM;
    }
    return partition;
}

/* ---- allocation ---- */

static bool grow(struct ps_partition *partition, uint32_t class_index) {
    size_t bytes = (size_t)ps_size_classes[class_index].granules << PS_GRANULE_SHIFT;
    return (!ps_limit_is_on() || ps_limit_make_room(bytes)) &&
           ps_store_grow_in(partition, class_index);
}

static size_t take(struct ps_partition *partition, uint32_t class_index, void **blocks,
                   size_t most) {
    struct ps_store *store = ps_partition_store(partition, class_index);
    return ps_store_take_from(store, blocks, most, NULL);
}

static size_t take_or_grow(struct ps_partition *partition, uint32_t class_index, void **blocks,
                           size_t most) {
    size_t count = take(partition, class_index, blocks, most);
    return count == 0 && grow(partition, class_index) ? take(partition, class_index, blocks, most)
                                                      : count;
}

size_t ps_partition_take_some(struct ps_partition *partition, uint32_t class_index, void **blocks,
                              size_t most) {
    size_t count = take_or_grow(partition, class_index, blocks, most);
    if (PS_UNLIKELY(count == 0)) {
        ps_mode.hook.reclaim();
        count = take_or_grow(partition, class_index, blocks, most);
    }
    if (PS_UNLIKELY(count == 0)) {
        errno = ENOMEM;
        return 0;
    }
    /* relaxed: a count. */
    ps_add_relaxed(&ps_store_x_counts[class_index].x_singles, (uint64_t)1);
    return count;
}

/* ---- fronts ---- */

bool ps_partition_add_fronts(struct ps_partition *partition) {
    partition->fronts = ps_front_table_take(partition);
    return partition->fronts != NULL;
}

void ps_partition_give(struct ps_partition *partition, uint32_t class_index, void **blocks,
                       size_t count) {
    if (count != 0) {
        ps_store_give(class_index, blocks, count);
        ps_partition_count(partition, class_index, -(uint64_t)count);
    }
}

size_t ps_partition_refill(struct ps_partition *partition, uint32_t class_index, void **blocks) {
    struct ps_front_table *table = partition->fronts;
    struct ps_front *own = ps_front_own_in(table, ps_front_thread.own);
    size_t most = 1;
    if (ps_front_thread.own != &ps_front_none) { /* its destructors have not run */
        ps_maintenance_tick();
        ps_front_reset_in(table, own, class_index);
        (void)ps_front_raise_in(table, own, class_index);
        most = ps_max(ps_front_batch(class_index), 1);
    }
    size_t count = ps_partition_take_some(partition, class_index, blocks, most);
    ps_partition_count(partition, class_index, count);
    ps_add_relaxed(&partition->x_made_count, (uint64_t)count);
    ps_partition_note_peak(partition, ps_load_relaxed(&partition->x_live_bytes));
    return count;
}

PS_NOINLINE void ps_partition_put_full(struct ps_partition *partition, uint32_t class_index,
                                       void *block) {
    struct ps_front_table *table = partition->fronts;
    struct ps_front *own = ps_front_own_in(table, ps_front_thread.own);
    void *taken[PS_STORE_BATCH + 1];
    size_t count = 0;
    if (ps_front_thread.own != &ps_front_none) { /* as above */
        ps_maintenance_tick();
        if (ps_front_raise_in(table, own, class_index) &&
            ps_front_push_in(table, ps_front_own_in(table, ps_front_thread.own), class_index,
                             block)) {
            return;
        }
        for (size_t batch = ps_front_batch(class_index); count < batch; count++) {
            taken[count] = ps_front_pop_in(table, own, class_index);
            if (taken[count] == NULL) {
                break;
            }
        }
        /* Takes that are none. */
        ps_add_relaxed(&ps_store_x_counts[class_index].x_singles, -(uint64_t)count);
    }
    if (count == 0 || !ps_front_push_in(table, own, class_index, block)) {
        taken[count++] = block;
    }
    ps_partition_give(partition, class_index, taken, count);
}

/* The lowest of a batch leaves first; all others are marked. */
static PS_NOINLINE void *refill(struct ps_partition *partition, uint32_t class_index) {
    void *blocks[PS_STORE_BATCH];
    size_t count = ps_partition_refill(partition, class_index, blocks);
    for (; count > 1; count--) {
        ps_mark_set(blocks[count - 1]);
        ps_partition_put(partition, class_index, blocks[count - 1]);
    }
    if (PS_LIKELY(count != 0)) {
        ps_mark_clear(blocks[0]);
    }
    return count != 0 ? blocks[0] : NULL;
}

static inline void *take_fronted(struct ps_partition *partition, uint32_t class_index) {
    void *block = ps_partition_pop(partition, class_index);
    return PS_LIKELY(block != NULL) ? ps_front_unmark(block) : refill(partition, class_index);
}

/* ---- any mode ---- */

void *ps_partition_alloc_large(struct ps_partition *partition,
                               const struct ps_partition_request *request) {
    bool is_zero = false;
    void *block = ps_large_alloc_in(partition, request->bytes, request->align, &is_zero);
    if (block != NULL && request->is_zeroed && !is_zero) {
        ps_large_make_zero(block, request->bytes);
    }
    return block;
}

void *ps_partition_alloc_plain(struct ps_partition *partition,
                               const struct ps_partition_request *request) {
    uint32_t class_index = ps_size_class_of_apart(ps_max(request->bytes, 1), request->align);
    if (class_index == PS_CLASS_NONE) {
        return ps_partition_alloc_large(partition, request);
    }
    void *block = NULL;
    if (partition->fronts != NULL) {
        block = take_fronted(partition, class_index);
    } else {
        (void)ps_partition_take_some(partition, class_index, &block, 1);
    }
    return block != NULL && request->is_zeroed ? ps_bytes_zero_block(block, request->bytes) : block;
}

/* The bytes that a block counts for. */
static size_t counted_bytes(const void *pointer, bool *is_large) {
    const char *block = ps_mte_strip(pointer);
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_slab *slab = ps_slab_holding(slot, block);
    *is_large = slab == NULL;
    return slab != NULL ? ps_slab_class(slab)->block_bytes : ps_large_usable(slot, block);
}

/* Counts a request that got a block of so many bytes: periodic work, as often as malloc does it.
 * Returns whether a sample is due. */
static bool count_bytes(size_t requested, size_t bytes) {
    struct ps_front_words *words = &ps_front_thread;
    if (PS_UNLIKELY(ps_counting_is_exact())) { /* malloc has other lengths above its classes */
        ps_counting_add_allocated(bytes - ps_length_of(requested, 1));
    }
    words->left_bytes -= (int64_t)ps_min(ps_max(requested, 1), words->large_most_bytes);
    return PS_UNLIKELY(words->left_bytes < 0) && words->own != &ps_front_none &&
           ps_front_count_event();
}

/*
 * Makes a block of a partition a sampled one, as front_path.c does: one of a class gives way to a
 * run of the partition, as long as it, since a free of it would not find the sample. Not of
 * guarded samples, whose pages serve any part of the heap. Returns the block.
 */
static PS_COLD void *sample(struct ps_partition *partition, void *block,
                            const struct ps_partition_request *request) {
    bool is_large;
    bool is_zero = false;
    size_t bytes = counted_bytes(block, &is_large);
    if (ps_mode.hook.sample_large == NULL) {
        return block;
    }
    if (is_large) {
        ps_mode.hook.sample_large(&ps_front_thread.sampler, block, request->bytes);
        return block;
    }
    void *run = ps_large_alloc_short_in(partition, bytes, request->align, &is_zero);
    if (run == NULL || !ps_partition_charge(partition, bytes, true)) {
        ps_heap_free(run); /* of none: no effect */
        return block;
    }
    if (request->is_zeroed && !is_zero) {
        (void)ps_bytes_zero_block(run, bytes);
    }
    ps_mode.hook.sample_large(&ps_front_thread.sampler, run, request->bytes);
    /* relaxed, both: counts; the other block was no take. */
    ps_add_relaxed(&partition->x_made_count, (uint64_t)-1);
    ps_add_relaxed(&ps_store_x_counts[ps_slab_of(block)->class_index].x_singles, (uint64_t)-1);
    ps_heap_free(block);
    ps_counting_note_replaced(bytes);
    return run;
}

static PS_COLD void *refuse(struct ps_partition *partition) {
    ps_add_relaxed(&partition->x_refused_count, (uint64_t)1);
    errno = ENOMEM;
    return NULL;
}

void *ps_partition_alloc(struct ps_partition *partition, size_t bytes, size_t align,
                         bool is_zeroed) {
    struct ps_partition_request request = {.bytes = bytes, .align = align, .is_zeroed = is_zeroed};
    uint64_t wanted = ps_load_relaxed(&partition->x_live_bytes) + bytes;
    bool may_serve = ps_partition_is(partition, PS_PARTITION_LIVE) && ps_engine_may_serve();
    if (PS_UNLIKELY(wanted < bytes || !ps_partition_is_within(partition, wanted) || !may_serve)) {
        return refuse(partition);
    }
    void *block = ps_mode.entry.alloc_in(partition, &request);
    if (PS_UNLIKELY(block == NULL)) {
        return NULL;
    }
    bool is_large;
    size_t counted = counted_bytes(block, &is_large);
    /* A block of a front was counted when it left the store. Rounded up, it may be too much. */
    bool is_charged = (partition->fronts != NULL && !is_large) ||
                      ps_partition_charge(partition, counted, is_large);
    if (PS_UNLIKELY(!is_charged)) {
        ps_heap_free(block);
        return refuse(partition);
    }
    return PS_UNLIKELY(count_bytes(bytes, counted)) ? sample(partition, block, &request) : block;
}

static PS_NOINLINE void *alloc_few_event(struct ps_partition *partition, size_t bytes) {
    struct ps_partition_request request = {.bytes = bytes, .align = 1};
    bool is_due = ps_front_count_event();
    void *block = take_fronted(partition, ps_size_class_of_few(bytes));
    return PS_UNLIKELY(is_due) && block != NULL ? sample(partition, block, &request) : block;
}

void *ps_partition_alloc_few(struct ps_partition *partition, size_t bytes) {
    struct ps_front_words *words = &ps_front_thread;
    bytes += bytes == 0;
    if (PS_UNLIKELY(bytes >= words->fast_limit || partition->fronts == NULL)) {
        return ps_partition_alloc(partition, bytes, 1, false);
    }
    words->left_bytes -= (int64_t)bytes;
    return PS_LIKELY(words->left_bytes >= 0) ? take_fronted(partition, ps_size_class_of_few(bytes))
                                             : alloc_few_event(partition, bytes);
}

/* ---- blocks ---- */

void ps_partition_free_small(struct ps_slab *slab, void *block) {
    struct ps_partition *partition = ps_partition_of_slab(slab);
    ps_counting_follow();
    ps_counting_note_free(ps_slab_class(slab)->block_bytes);
    if (partition->fronts != NULL) {
        if (PS_UNLIKELY(ps_mark_is_set(block))) {
            ps_front_free_misused(block);
        }
        ps_mark_set(block); /* first: another thread may take it at once */
        ps_partition_put(partition, slab->class_index, block);
        return;
    }
    size_t bytes = ps_slab_class(slab)->block_bytes;
    struct ps_front_words *words = &ps_front_thread;
    ps_store_give_range(slab->class_index, block, 1);
    if (PS_UNLIKELY(++words->inherited_frees % FREES == 0) && words->own != &ps_front_none) {
        ps_maintenance_tick();
    }
    ps_partition_discharge(partition, bytes, false); /* last: the partition may end with it */
}
