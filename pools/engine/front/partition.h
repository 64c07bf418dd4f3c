/* SPDX-License-Identifier: MIT */
/*
 * Partitions: parts of the heap whose addresses do not pass to other parts. Each has extents of its
 * own (page/extents.h), and in these slabs, in a store for each class, and runs. No page of one
 * serves another partition while it exists, and none serves the plain heap ever.
 *
 * free() finds the partition by the slab, or by the run. A slab of a partition has no tag, so that
 * free() takes its slow path; the fast paths know nothing of partitions. Classes reach
 * PS_CLASS_BYTES_LIMIT in all modes. Blocks above have whole granules.
 *
 * A partition's record is 1 KiB of metadata, never unmapped; one that has ended serves the next
 * partition. Its stores are made at the first slab of a class, 256 bytes each.
 *
 * This file: records, their table, their stores. heap/partition_path.h allocates. Any thread; lock
 * PS_RANK_PARTITIONS for begin and end.
 */
#ifndef PS_FRONT_PARTITION_H
#define PS_FRONT_PARTITION_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/page/extents.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_PARTITIONS 65536 /* at a time */
#define PS_PARTITION_CHUNK 512
#define PS_PARTITION_NAME_BYTES 32

enum ps_partition_state {
    PS_PARTITION_NONE = 0,
    PS_PARTITION_LIVE,
    PS_PARTITION_LEAVING, /* nothing is allocated any more; ends with its last block */
    PS_PARTITION_ENDING,  /* by one thread */
};

/* live_bytes: block sizes of live small blocks, usable bytes of others. large_ of these. Any thread
 * adds. Read from outside the process, too. */
struct ps_partition {
    struct ps_extents extents;
    uint64_t x_live_bytes;
    uint64_t x_live_count;
    uint64_t x_large_bytes;
    uint64_t x_large_count;
    uint64_t x_made_count;  /* blocks so far */
    uint64_t x_peak_bytes;  /* of x_live_bytes */
    uint64_t x_limit_bytes; /* of them; 0: none */
    uint64_t x_refused_count;
    uint32_t x_state;      /* enum ps_partition_state */
    uint32_t x_generation; /* how many partitions have had the record */
    uint32_t index;        /* constant */
    bool is_object;        /* the program has its value: shim/heap.c; constant as name */
    char name[PS_PARTITION_NAME_BYTES];        /* terminated; constant while it exists */
    struct ps_front_table *fronts;             /* of its own; NULL: none. Constant */
    struct ps_partition *next_free;            /* record without a partition */
    struct ps_store *x_stores[PS_CLASS_LIMIT]; /* NULL: none yet */
};

/* The owner of an extent. */
static inline struct ps_partition *ps_partition_of_extent(const struct ps_extent *extent) {
    return PS_CONTAINER_OF(extent->owner, struct ps_partition, extents);
}

/* slab: of a partition. */
static inline struct ps_partition *ps_partition_of_slab(const struct ps_slab *slab) {
    return ps_partition_of_extent(slab->extent);
}

/* ---- the table ---- */

/* Chunks of PS_PARTITION_CHUNK pointers to records. Read from outside the process, too. */
extern PS_HIDDEN struct ps_partition **ps_partition_x_chunks[PS_PARTITIONS / PS_PARTITION_CHUNK];

/* Indexes that have had a partition. 0: there has been none. */
extern PS_HIDDEN uint32_t ps_partition_x_end;
static inline uint32_t ps_partition_end(void) {
    return ps_load_acquire(&ps_partition_x_end); /* acquire: pairs with ps_partition_begin */
}

/* The record of an index, which may have no partition now; NULL: of none. */
struct ps_partition *ps_partition_at(uint32_t index);

/* Takes a record: LIVE, counts 0, without extents. NULL: there are as many as can be, or memory is
 * exhausted. name: NULL, or copied, and cut where it is too long. */
struct ps_partition *ps_partition_begin(const char *name, uint64_t limit_bytes);

/* Changes the name: before other threads have the partition. */
void ps_partition_set_name(struct ps_partition *partition, const char *name);

/* Returns the record; its state is ENDING, its extents are empty. */
void ps_partition_end_record(struct ps_partition *partition);

static inline bool ps_partition_is(const struct ps_partition *partition,
                                   enum ps_partition_state state) {
    return ps_load_seq_cst(&partition->x_state) == (uint32_t)state; /* see ps_partition_leave */
}

/* ---- parts of the plain heap ---- */

/*
 * Partitions that malloc itself serves: harden/site.h. They are in no table, have fronts, never
 * end, and are none for ps_partition_of: their blocks are the plain heap's for programs.
 */
#define PS_PARTITION_PARTS 32
extern PS_HIDDEN struct ps_partition *ps_partition_parts; /* NULL: there are none */

/* A bit for each one that has begun. */
extern PS_HIDDEN uint32_t ps_partition_x_parts;

static inline bool ps_partition_is_part(const struct ps_partition *partition) {
    return ps_partition_parts != NULL && (uintptr_t)partition - (uintptr_t)ps_partition_parts <
                                             PS_PARTITION_PARTS * sizeof *partition;
}

/* Maps memory for all parts, and their tables of fronts. Called once, before the first block; false
 * when memory is exhausted. */
bool ps_partition_map_parts(void);

/* Begins a part, unless it has begun. False: another thread is about to, or was when this process
 * was forked. */
bool ps_partition_begin_part(size_t index);

/* ---- counts ---- */

struct ps_partition_use {
    uint64_t live_bytes; /* and so on: as above */
    uint64_t live_count;
    uint64_t large_bytes;
    uint64_t large_count;
    uint64_t made_count;
    uint64_t peak_bytes;
    uint64_t limit_bytes;
    uint64_t refused_count;
    uint64_t mapped_bytes; /* of slabs and runs: addresses in use, not necessarily resident */
    uint64_t held_bytes;   /* free granules that are resident, until they are purged */
};
void ps_partition_read(const struct ps_partition *partition, struct ps_partition_use *use);

/* ---- stores ---- */

/* NULL: none yet. */
static inline struct ps_store *ps_partition_store(struct ps_partition *partition,
                                                  uint32_t class_index) {
    /* acquire: pairs with ps_partition_make_store. */
    return ps_load_acquire(&partition->x_stores[class_index]);
}

/* False when memory is exhausted. */
bool ps_partition_make_store(struct ps_partition *partition, uint32_t class_index);

/*
 * Partitions with fronts (front.h) never end, and have no limit. Their small blocks count as live
 * while they are in a front: they are counted a batch at a time.
 */
static inline void ps_partition_count(struct ps_partition *partition, uint32_t class_index,
                                      uint64_t blocks) {
    /* relaxed, both: counts. */
    ps_add_relaxed(&partition->x_live_count, blocks);
    ps_add_relaxed(&partition->x_live_bytes, blocks * ps_size_classes[class_index].block_bytes);
}

/* Returns the slabs and the extents of a partition whose state is ENDING, after end_large for each
 * other run. While no other thread uses it. Cost: its granules, and a system call for each long
 * run. */
void ps_partition_empty(struct ps_partition *partition, void (*end_large)(struct ps_slot *slot));

/* In the child of a fork, on its only thread. */
void ps_partition_fork_child(void);

#endif
