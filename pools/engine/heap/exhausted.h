/* SPDX-License-Identifier: MIT */
/*
 * The last sources of blocks for small requests, when there is no memory for a span: the nearest
 * longer class with a free block, then a medium block. Called by refill.c, resize.c and harden/:
 * the owner of the heap, within a call.
 */
#ifndef PS_HEAP_EXHAUSTED_H
#define PS_HEAP_EXHAUSTED_H

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/heap.h"

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

/* Take a block for a request whose class gets no fresh memory, at least as aligned: the first, of a
 * longer class or a medium block; the second, of that class or a longer one. bytes: as in
 * ps_heap_refill. NULL: there is none. */
void *ps_exhausted_take_longer(struct ps_heap *heap, uint32_t class_index, size_t bytes);
void *ps_exhausted_take_any(struct ps_heap *heap, uint32_t class_index, size_t bytes);

/* A medium block for such a request; NULL: there is none. */
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
