/* SPDX-License-Identifier: MIT */
/*
 * The last sources of blocks for small requests, when there is no memory for a slab: the nearest
 * longer class with a free block, then a medium block. Callers: front_path.c, large_path.c,
 * harden/. Any thread. No locks.
 */
#ifndef PS_HEAP_EXHAUSTED_H
#define PS_HEAP_EXHAUSTED_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/small/size_class.h"

/* The alignment that a request of `bytes` may need. Aligned requests ask for the full length of a
 * block, and are aligned as far as that length is; so a plain request of that length counts as
 * aligned. */
static inline size_t ps_exhausted_align(uint32_t class_index, size_t bytes) {
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    return bytes == block_bytes ? block_bytes & (~block_bytes + 1) : ps_min(block_bytes, 16);
}

/* The next class whose blocks are longer, and aligned; PS_CLASS_NONE: there is none. */
static inline uint32_t ps_exhausted_next(uint32_t class_index, size_t align) {
    do {
        class_index++;
    } while (class_index < ps_size_class_count &&
             ps_size_classes[class_index].block_bytes % align != 0);
    return class_index < ps_size_class_count ? class_index : PS_CLASS_NONE;
}

/* A medium block for a request whose class gets no fresh memory; NULL: there is none. */
void *ps_exhausted_take_medium(size_t bytes, size_t align);

/* Notes that a block may be longer than others for its request, and returns it; NULL: sets errno to
 * ENOMEM. */
void *ps_exhausted_note(void *block);

/* True if any block may be longer than others for its request. Any thread. */
extern PS_HIDDEN uint32_t ps_exhausted_x_has_lengthened;
static inline bool ps_exhausted_has_lengthened(void) {
    return ps_load_relaxed(&ps_exhausted_x_has_lengthened) != 0; /* relaxed: see its store */
}

#endif
