/* SPDX-License-Identifier: MIT */
/*
 * Free memory that live blocks pin, charged to the stacks that allocated them.
 *
 * A free block of a slab serves its size class only while the slab has a live block. Each live
 * block is charged with the free memory of its slab divided by the live blocks there. Sampled
 * blocks represent the others; they are in no slab, so the sample names the one that would have had
 * it. If that slab was released since, the block would be alone in it. The sum over the samples of
 * a class is scaled to the sum over its slabs.
 *
 * Caller: the shim, when it writes a profile; nothing is counted before. Any thread; takes the page
 * lock, then the table lock for each chain. Cost: O(granules in use + live samples).
 */
#ifndef PS_PROFILE_PINNED_H
#define PS_PROFILE_PINNED_H

#include "pools/engine/profile/profile.h"
#include "pools/engine/small/size_class.h"

#include <stddef.h>
#include <stdint.h>

struct ps_pinned_entry {
    const struct ps_profile_stack *stack; /* NULL: the entry is free */
    uint32_t class_index;
    double bytes; /* as its samples claim */
};

/* The caller's memory: a hash table, zeroed, of a power of two of entries. */
struct ps_pinned {
    struct ps_pinned_entry *entries;
    size_t mask;                    /* entries - 1 */
    double actual[PS_CLASS_LIMIT];  /* free bytes in slabs with live blocks */
    double claimed[PS_CLASS_LIMIT]; /* by samples */
};

/* Entries that suffice for so many live samples. */
size_t ps_pinned_entries(size_t sample_count);

/* Fills the table; what does not fit is left out. */
void ps_pinned_count(struct ps_pinned *pinned);

/* Bytes that the blocks of a stack pin. */
uint64_t ps_pinned_of(const struct ps_pinned *pinned, const struct ps_profile_stack *stack);

#endif
