/* SPDX-License-Identifier: MIT */
/*
 * The store of free blocks: the slabs of each class and node, by how full they are. Fronts and
 * windows are filled from it, and return to it, a batch at a time.
 *
 * A batch comes from the fullest slabs, so that the others drain: a slab without used blocks
 * returns to the page cache. A batch that returns is sorted first, so that the line of a slab is
 * written once. A range of blocks that no program has used becomes a window (window.h).
 *
 * The pages of a slab in which no block is used return to the system when the slab has not changed
 * for a purge delay (ps_store_purge_tick).
 *
 * A partition (partition.h) has stores of its own, one for each class. Functions that return blocks
 * find the store by the slab.
 *
 * Any thread, one lock for each store (PS_RANK_STORE), held for the blocks of a batch. In
 * the child of a fork the lists are made anew from the bitmaps, which are right at each instant
 * except for the batch that was being moved: its blocks may remain used.
 */
#ifndef PS_FRONT_STORE_H
#define PS_FRONT_STORE_H

#include "pools/engine/front/slab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_partition;

#define PS_STORE_BATCH 32 /* blocks that a refill takes at most */

/* Blocks of a class handed out in windows, and one by one, since the start; slabs that exist.
 * Written under the locks; any thread, and a reader outside of the process, reads. */
struct ps_store_counts {
    uint64_t x_windowed;
    uint64_t x_singles; /* taken or returned past a front: takes only */
    uint64_t x_slabs;
};
extern PS_HIDDEN struct ps_store_counts ps_store_x_counts[PS_CLASS_LIMIT];

/* A range of blocks, in one word: see window.h. */
typedef uint64_t ps_range;

/* Called once, with the engine. */
void ps_store_start(void);

/*
 * Takes blocks of a class from slabs that exist: up to `most`, 1 to PS_STORE_BATCH, into blocks[].
 * Or, if `range` is not NULL, a range of up to *range adjacent blocks that no thread has used, or
 * whose pages were purged. Returns the number of blocks, 0 with *range set, or 0 without: there are
 * none. is_any_node: blocks of other nodes, too.
 */
size_t ps_store_take(uint32_t class_index, void **blocks, size_t most, ps_range *range,
                     bool is_any_node);

/* The same from one store. store: NULL, which has none. */
struct ps_store;
size_t ps_store_take_from(struct ps_store *store, void **blocks, size_t most, ps_range *range);

/* Adds a slab of the class. False when memory is exhausted. */
bool ps_store_grow(uint32_t class_index);

/* The same in a partition. */
bool ps_store_grow_in(struct ps_partition *partition, uint32_t class_index);

/* The same in granules of a region of medium blocks: for when the page cache has no memory. */
bool ps_store_grow_lent(uint32_t class_index);

/* Returns blocks of a class, 1 or more, to their slabs. Sorts them. Reports a block that is free
 * already. */
void ps_store_give(uint32_t class_index, void **blocks, size_t count);

/* Returns adjacent blocks of one slab. */
void ps_store_give_range(uint32_t class_index, char *lowest, size_t count);

/* Returns slabs without used blocks to the page cache, except for one of each class if `is_all` is
 * false. */
void ps_store_drop_drained(bool is_all);

/* Counts of all slabs: a snapshot. */
struct ps_store_usage {
    uint64_t free_bytes;   /* of free blocks, without purged pages */
    uint64_t purged_bytes; /* of purged pages */
};
void ps_store_read_usage(struct ps_store_usage *usage);

/* ---- holes: store_purge.c ---- */

/* A time: purges count how long a slab has not changed. Written by the purging thread. */
extern PS_HIDDEN uint8_t ps_store_x_epoch;

#define PS_STORE_LEAST_PAGES 1 /* of a slab: less is not worth a call of the system */

/* Takes the blocks of all pages of a slab without used blocks, for a purge, if it has not changed
 * for `age` epochs. Returns the pages, a bit for each; 0: none. slab: may have ended. */
uint16_t ps_store_reserve_pages(struct ps_slab *slab, uint8_t age);

/* Returns them. */
void ps_store_return_pages(struct ps_slab *slab, uint16_t pages, bool is_purged);

/* A step of purging: of slabs that have been idle for a purge delay, or, if is_asked, of all.
 * *bytes: adds what was released. Returns whether there is more to do. One thread at a time; others
 * return at once. */
bool ps_store_purge_tick(uint64_t now_ms, bool is_asked, uint64_t *bytes);

/* True if a step without is_asked may have something to do. */
extern PS_HIDDEN uint64_t ps_store_purge_x_due_ms;
static inline bool ps_store_purge_is_due(uint64_t now_ms) {
    return now_ms >= ps_load_relaxed(&ps_store_purge_x_due_ms); /* relaxed: a hint */
}

/* Purges all of it. Returns the bytes. */
uint64_t ps_store_purge_all(void);

/* Excludes purges, for the end of a partition. Blocks for a step of one. */
void ps_store_purge_stop(void);
void ps_store_purge_resume(void);

void ps_store_purge_fork_child(void);

/*
 * In the child of a fork, on its only thread. Other threads ran while the kernel copied page after
 * page, so that a free block may be in a front on one page and in a bitmap, or in another front, on
 * the next. So the blocks of all fronts and windows of others return to the bitmaps, where each is
 * free once, and then the lists are made anew.
 */

/* Marks a block as free; it may be so already, or its slab may have ended. */
void ps_store_fork_add(uint32_t class_index, void *block);

/* Repairs the locks. Makes the lists anew: of all classes if had_others, or else of classes whose
 * lock another thread held. Reads the slot of each granule then. Makes all slabs inherited
 * (slab.h). */
void ps_store_fork_child(bool had_others);

#endif
