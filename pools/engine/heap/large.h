/* SPDX-License-Identifier: MIT */
/*
 * Blocks above the size classes: medium ones (medium_path.h), page runs from the page cache, and
 * from mmap_min_bytes on mappings of their own. When memory is exhausted, functions that allocate
 * return NULL with errno ENOMEM and change nothing. Callers: front_path.c, large_path.c,
 * the modes, shim/. Any thread. Locks only through the layers below.
 */
#ifndef PS_HEAP_LARGE_H
#define PS_HEAP_LARGE_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/heap/medium_path.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The family of functions that made a block, initially malloc's. Distinguished from level 2 of
 * POOLSHIM_HARDEN on. */
enum ps_family { PS_FAMILY_MALLOC = 0, PS_FAMILY_NEW, PS_FAMILY_NEW_ARRAY, PS_FAMILY_NEW_ALIGNED };

/* The tenant's part of the slot of a run or mapping. */
struct ps_large {
    size_t bytes;             /*  0 usable; written by the holder of the block */
    struct ps_extent *extent; /*  8 that of a partition, as in struct ps_slab; NULL: none */
    enum ps_family family;    /* 16 as bytes */
};

/* True for an address in a region of medium blocks. */
static inline bool ps_block_is_medium(const struct ps_slot *slot) {
    /* relaxed: set before the block was. */
    return ps_load_relaxed(&slot->run.kind) == PS_RUN_MEDIUM;
}

/* True for a block above the classes: neither one of a slab nor a stray one. */
static inline bool ps_block_is_large(const struct ps_slot *slot, const void *block) {
    if (ps_block_is_medium(slot)) {
        return ps_medium_is_live(slot, block);
    }
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: as above */
    return (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block;
}

/* Allocates a medium block, a run or, from mmap_min_bytes on, a mapping. *is_zero (may be NULL):
 * the block reads as zero. align: power of two. */
void *ps_large_alloc(size_t bytes, size_t align, bool *is_zero);

/* Allocates a run in a partition, or a mapping, apart from all others. */
void *ps_large_alloc_in(struct ps_partition *partition, size_t bytes, size_t align, bool *is_zero);

/* The same for a sampled block of a class, which remains as long as the class has it. */
void *ps_large_alloc_short_in(struct ps_partition *partition, size_t bytes, size_t align,
                              bool *is_zero);

/* As ps_large_alloc, zeroed, without alignment. */
void *ps_large_zalloc(size_t bytes);

/* slot: the block's, here and below. */
size_t ps_large_usable(const struct ps_slot *slot, const void *block);

/* Runs and mappings only. Medium blocks are freed by ps_medium_free, and have no families, since
 * they are not hardened. */
void ps_large_free(struct ps_slot *slot);

/* Returns the run of a freed block: to the page cache, or to its partition. */
void ps_large_give_run(struct ps_run *run);

/* The partition of a run or a mapping; NULL: none. */
static inline struct ps_partition *ps_large_partition(const struct ps_slot *slot) {
    const struct ps_extent *extent = ((const struct ps_large *)slot)->extent;
    return extent != NULL ? ps_partition_of_extent(extent) : NULL;
}

enum ps_family ps_large_family(const struct ps_slot *slot);
void ps_large_set_family(struct ps_slot *slot, enum ps_family family);

/* Zeroes a large block, or its rest from a page on. If little of it is resident, it is purged,
 * because writing zeroes would make all of it resident. */
void ps_large_make_zero(void *block, size_t bytes);

/* Resizes a run or a mapping in place or by moving pages; NULL, without errno, when only a copy
 * will do. */
void *ps_large_resize(struct ps_slot *slot, size_t bytes);

/* Called once, before the first large block. */
void ps_large_start(const struct ps_config *config);

/* Runs and mappings allocated so far. Any thread adds; read from outside the process, too:
 * record/layout.h. */
extern PS_HIDDEN uint64_t ps_large_x_allocs;

/* True for page-rounded requests that get a mapping. */
bool ps_large_is_mapping_size(size_t bytes);

#endif
