/* SPDX-License-Identifier: MIT */
/*
 * Slabs: runs cut into equal blocks. A bitmap, apart from the blocks, says which of them are free.
 *
 * A block that a front, a window, a quarantine or the program has counts as used. Blocks have no
 * owner, and a slab has none: store.h takes blocks from slabs and returns them, under a lock for
 * each class. Nothing is written into a block when it returns, so that a page of free blocks can be
 * released without another word about it (purged_pages). A sparse slab has fewer blocks than its
 * class (slab_room.h).
 *
 * A slab of a partition (partition.h) is in a store of the partition, and has no tag.
 *
 * The slab is the slot of its first granule (page/page_map.h). The tag of the granule is the class,
 * for free(), if the slab has one granule; a longer slab is found by its slots.
 *
 * Callers: store.c; others read. Locks: store.c's, except for the constant fields.
 */
#ifndef PS_FRONT_SLAB_H
#define PS_FRONT_SLAB_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/small/mark.h"
#include "pools/engine/small/misuse.h"
#include "pools/engine/small/size_class.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_SLAB_WORDS 8 /* of a bitmap that fits the slot: blocks of 128 bytes and above */

struct ps_slab {
    uint64_t *bits;           /*  0 a bit for each block, 1: free; constant */
    struct ps_extent *extent; /*  8 that of a partition; NULL: of the plain heap; constant */
    uint16_t x_free_count;    /* 16 bits that are 1; a census reads it */
    uint16_t fresh;        /* 18 index: no block from here on has been used since the slab began */
    uint16_t purged_pages; /* 20 a bit for each page of a slab of one granule: it reads as zero */
    uint8_t class_index;   /* 22 constant */
    uint8_t place;         /* 23 list of the store, plus 1; 0: none */
    uint8_t is_zero : 1;   /* 24 fresh blocks read as zero; constant */
    uint8_t guard : 2;     /* 24 enum ps_slab_guard: slab_room.h; constant */
    uint8_t epoch;         /* 25 of the last change, see store.c */
    uint16_t capacity;     /* 26 blocks: all of the class, except in a sparse slab; constant */
    uint32_t lent_at;      /* 28 place in the region that lent it, or 0: page/medium.h; constant */
    uint64_t words[PS_SLAB_WORDS]; /* 32 the bitmap, if it fits */
    struct ps_run run;             /* 96 */
};

_Static_assert(sizeof(struct ps_slab) == PS_SLOT_BYTES, "a slab is a slot");
_Static_assert(offsetof(struct ps_slab, run) == PS_TENANT_BYTES, "the run is the page layer's");

PS_INLINE struct ps_slab *ps_slab_of_run(struct ps_run *run) {
    return PS_CONTAINER_OF(run, struct ps_slab, run);
}

/* The slab of any address in it; NULL if the address lies in none. slot: that of the address. */
static inline struct ps_slab *ps_slab_holding(struct ps_slot *slot, const void *address) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    if (kind == PS_RUN_INSIDE) {
        slot = ps_page_map_slot((const char *)address - slot->run.back * PS_GRANULE_BYTES);
        kind = ps_load_relaxed(&slot->run.kind); /* relaxed: as above */
    }
    return kind == PS_RUN_SLAB ? (struct ps_slab *)slot : NULL;
}

/* The slab of a block. */
PS_INLINE struct ps_slab *ps_slab_of(const void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    if (PS_UNLIKELY(ps_load_relaxed(&slot->run.kind) == PS_RUN_INSIDE)) { /* relaxed: as above */
        slot = ps_page_map_slot((const char *)block - slot->run.back * PS_GRANULE_BYTES);
    }
    return (struct ps_slab *)slot;
}

static inline const struct ps_size_class *ps_slab_class(const struct ps_slab *slab) {
    return &ps_size_classes[slab->class_index];
}

static inline size_t ps_class_capacity(uint32_t class_index) {
    return (size_t)(ps_size_classes[class_index].limit - ps_size_classes[class_index].first);
}

static inline char *ps_slab_block(const struct ps_slab *slab, size_t index) {
    return slab->run.base + index * ps_slab_class(slab)->block_bytes;
}

/* The index of a block. */
static inline size_t ps_slab_index(const struct ps_slab *slab, const void *block) {
    const struct ps_size_class *class = ps_slab_class(slab);
    return class->factor != 0
               ? ps_size_class_scaled(class, block) >> PS_SCALED_SHIFT
               : (uint32_t)((const char *)block - slab->run.base) / class->block_bytes;
}

/* True if a block of the slab starts at this address within it. */
static inline bool ps_slab_has_block(const struct ps_slab *slab, const void *address) {
    const struct ps_size_class *class = ps_slab_class(slab);
    size_t offset = (size_t)((const char *)address - slab->run.base);
    size_t index = offset / class->block_bytes;
    return offset == index * class->block_bytes && index >= class->first && index < class->limit;
}

/* True if the bit of a block is set: no front or window has it, nor the program. */
static inline bool ps_slab_is_free(const struct ps_slab *slab, const void *block) {
    size_t index = ps_slab_index(slab, block);
    /* relaxed: constant while the block is out, as the caller claims. */
    return (ps_load_relaxed(&slab->bits[index / 64]) >> index % 64 & 1) != 0;
}

/*
 * The tag of a slab of one granule: the class, plus 1, and above PS_SLAB_TAG_BITS how many blocks
 * beyond the first may be out, less 1. A free of an address whose index is higher is a misuse. 0
 * while no block is out; if the slab is a partition's; and if it is inherited: it existed when this
 * process was forked, and no block has been taken since.
 */
#define PS_SLAB_TAG_BITS PS_SCALED_SHIFT
/* Without tags each free takes the slow path. Constant after the start. */
extern PS_HIDDEN bool ps_slab_has_tags;
static inline void ps_slab_set_tag(const struct ps_slab *slab) {
    const struct ps_size_class *class = ps_slab_class(slab);
    if (ps_slab_has_tags && class->factor != 0 && slab->extent == NULL &&
        slab->fresh > class->first) {
        uint32_t last = (uint32_t)(slab->fresh - class->first - 1);
        ps_page_map_set_tag(slab->run.base, last << PS_SLAB_TAG_BITS | (slab->class_index + 1u));
    }
}
/* slab: a block of it is out. */
static inline bool ps_slab_is_inherited(const struct ps_slab *slab) {
    return ps_slab_has_tags && ps_slab_class(slab)->factor != 0 && slab->extent == NULL &&
           ps_page_map_has_tag(slab->run.base) && ps_page_map_tag(slab->run.base) == 0;
}

/* Reports a call on an address within a slab that is not a live block: it lies inside of one, or
 * the block is free. */
PS_NORETURN void ps_slab_misuse(const struct ps_slab *slab, const void *address,
                                enum ps_misuse_call call);

/* Reports a free block that was written to, or handed out twice. */
PS_NORETURN void ps_slab_overwritten(const void *block);

#endif
