/* SPDX-License-Identifier: MIT */
/*
 * Partitions of the heap that are made when they are first needed, and never end: of allocation
 * tokens, and of cold blocks. They have fronts (pools/engine/heap/partition_path.h), as far as
 * there are tables of those. Callers: shim/token.c, shim/cxx_hot_cold.c. Any thread, no locks.
 */
#ifndef PS_SHIM_LASTING_H
#define PS_SHIM_LASTING_H

#include "pools/engine/heap/partition_path.h"

/* Makes the partition of a place. NULL: it cannot be made; errno is preserved. */
struct ps_partition *ps_lasting_make(struct ps_partition **x_place, const char *name);

/* A block of the partition; alignments of the size classes, and others. */
static inline void *ps_lasting_alloc_aligned(struct ps_partition *partition, size_t size,
                                             size_t align) {
    return align <= 16 && (size > 8 || align <= 8)
               ? ps_partition_alloc_few(partition, size)
               : ps_partition_alloc(partition, size, align, false);
}

#endif
