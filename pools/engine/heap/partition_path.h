/* SPDX-License-Identifier: MIT */
/*
 * Allocation in partitions of the heap (front/partition.h), and their life. For heaps as objects,
 * allocation tokens, arenas of other interfaces, heaps by call site.
 *
 *     struct ps_partition *part = ps_partition_create("name", 0);
 *     void *block = ps_partition_alloc(part, 100, 1, false);
 *     ps_heap_free(block);               free, realloc, malloc_usable_size: as of any block
 *     ps_partition_destroy(part);
 *
 * In each mode: no address of a live partition was or becomes one of another partition,
 * or of the plain heap. A block is freed, resized and measured by the usual functions, by any
 * thread; realloc keeps the partition. The checks of the mode apply to it, except that
 * it is never a guarded sample. A sampled block of the heap profile is a run of its partition.
 *
 * A request takes a block of a class from the partition's store, under the lock of the class, or a
 * run from its extents. A double free is found by the bitmap of the slab.
 *
 * Any thread. Locks only through the layers below. Calls may come before the engine has started
 * (ps_partition_create then starts it), but not before relocation.
 */
#ifndef PS_HEAP_PARTITION_PATH_H
#define PS_HEAP_PARTITION_PATH_H

#include "pools/engine/front/front.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/large.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- life ---- */

/* Begins a partition. name: copied, cut at PS_PARTITION_NAME_BYTES - 1; NULL: none. limit_bytes: of
 * x_live_bytes; 0: none. NULL with errno: ENOMEM, EAGAIN if there are PS_PARTITIONS. */
struct ps_partition *ps_partition_create(const char *name, uint64_t limit_bytes);

/*
 * Ends a partition that is LIVE: frees all its blocks, returns their memory to the system and their
 * addresses to later partitions. False: another thread ends it. No other thread may use the
 * partition or a block of it during the call. Cost: its granules.
 */
bool ps_partition_destroy(struct ps_partition *partition);

/* Frees all its blocks, as if by ps_partition_destroy, and begins again: name, limit and generation
 * stay. False as above. */
bool ps_partition_reset(struct ps_partition *partition);

/* Ends a partition with its last live block, which remains valid until it is freed. From now on it
 * allocates nothing. False as above. */
bool ps_partition_leave(struct ps_partition *partition);

/*
 * Gives a new partition fronts: freed blocks wait there for the next requests, as those of the
 * plain heap, without a lock. It must never end, nor have a limit; its small blocks count as live
 * while they are in a front. False: PS_FRONT_APART partitions have some.
 */
bool ps_partition_add_fronts(struct ps_partition *partition);

/* ---- blocks ---- */

/* A block of `bytes` (0: 1), at a multiple of align, a power of two; at least 16, or 8 of up to 8
 * bytes. NULL with errno ENOMEM when memory is exhausted, beyond the limit, or if the partition is
 * not LIVE. */
void *ps_partition_alloc(struct ps_partition *partition, size_t bytes, size_t align,
                         bool is_zeroed);

/* The same without alignment: in a partition with fronts a few instructions more than malloc. */
void *ps_partition_alloc_few(struct ps_partition *partition, size_t bytes);

/* The partition of a live block; NULL: of the plain heap, or the address is none of a block. */
struct ps_partition *ps_partition_of(const void *pointer);

/* ---- for the modes ---- */

struct ps_partition_request {
    size_t bytes;
    size_t align;
    bool is_zeroed;
};

/* The plain mode's entry point alloc_in, and its part for blocks above the classes. */
void *ps_partition_alloc_plain(struct ps_partition *partition,
                               const struct ps_partition_request *request);
void *ps_partition_alloc_large(struct ps_partition *partition,
                               const struct ps_partition_request *request);

/* Takes blocks of a class, up to `most`, one of them to be allocated: the others return by
 * ps_store_give. Their contents are undefined. 0, with errno ENOMEM, when memory is exhausted. */
size_t ps_partition_take_some(struct ps_partition *partition, uint32_t class_index, void **blocks,
                              size_t most);

/* Frees a live block of a slab of a partition, and counts it. */
void ps_partition_free_small(struct ps_slab *slab, void *block);

/* A block of a class from the fronts of a partition that has some; NULL: there is none. */
PS_INLINE void *ps_partition_pop(struct ps_partition *partition, size_t class_index) {
    struct ps_front_table *table = partition->fronts;
    return ps_front_pop_in(table, ps_front_own_in(table, ps_front_thread.own), class_index);
}

/* Puts a free block there, or where a full front leaves it. */
void ps_partition_put_full(struct ps_partition *partition, uint32_t class_index, void *block);
PS_INLINE void ps_partition_put(struct ps_partition *partition, uint32_t class_index, void *block) {
    struct ps_front_table *table = partition->fronts;
    struct ps_front *own = ps_front_own_in(table, ps_front_thread.own);
    if (PS_UNLIKELY(!ps_front_push_in(table, own, class_index, block))) {
        ps_partition_put_full(partition, class_index, block);
    }
}

/* As ps_partition_take_some, for a front that is empty: `most` is up to PS_STORE_BATCH. */
size_t ps_partition_refill(struct ps_partition *partition, uint32_t class_index, void **blocks);

/* Returns blocks of a batch that are not allocated, or leave the front. */
void ps_partition_give(struct ps_partition *partition, uint32_t class_index, void **blocks,
                       size_t count);

/* Counts a block that was allocated. False: it is beyond the limit, and to be freed. */
bool ps_partition_charge(struct ps_partition *partition, uint64_t bytes, bool is_large);

/* True if so many live bytes are not. */
bool ps_partition_is_within(const struct ps_partition *partition, uint64_t live_bytes);

void ps_partition_note_peak(struct ps_partition *partition, uint64_t live_bytes);

/* Counts a block that was freed; is_large: above the classes. Ends the partition with the last one
 * if it is LEAVING. The block has been returned. */
void ps_partition_discharge(struct ps_partition *partition, size_t bytes, bool is_large);

/* Changes the length of a large block in the counts. False: it would be beyond the limit. */
bool ps_partition_recharge(struct ps_partition *partition, size_t more_bytes);

#endif
