/* SPDX-License-Identifier: MIT */
/*
 * The lengths of blocks by the requests that get them, from the tables of the engine, which has
 * started. Callers: block.c, counting.h, partition_path.c. Any thread, no locks.
 */
#ifndef PS_HEAP_LENGTH_H
#define PS_HEAP_LENGTH_H

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/small/size_class.h"

#include <stdbool.h>
#include <stddef.h>

/* True for an alignment that the blocks of every class have. */
static inline bool ps_length_is_usual(size_t bytes, size_t align) {
    return align <= 16 && (bytes > 8 || align <= 8);
}

/* The answer of ps_block_length. */
static inline size_t ps_length_of(size_t bytes, size_t align) {
    if (bytes > PS_BLOCK_BYTES_MOST || align > PS_BLOCK_BYTES_MOST) {
        return 0;
    }
    bytes = ps_max(bytes, 1);
    uint32_t class_index = ps_length_is_usual(bytes, align)
                               ? ps_size_class_of(bytes)
                               : ps_size_class_of_aligned(bytes, align);
    if (class_index != PS_CLASS_NONE) {
        return ps_size_classes[class_index].block_bytes;
    }
    return ps_medium_is_size(bytes, align) ? ps_medium_pages_for(bytes) << PS_MEDIUM_PAGE_SHIFT
                                           : ps_round_up(bytes, ps_os_page_bytes());
}

#endif
