/* SPDX-License-Identifier: MIT */
/*
 * Allocation and free of medium blocks (page/medium.h): from the thread's front, which has a class
 * for each length (front/front.h), or from the regions, under the lock of a shard. Blocks have no
 * owner, so a free by another thread takes the same path.
 *
 * A block is as long as requested, to the page; one from a front may be up to an eighth longer. Its
 * mark tells its length, and whether it is in a front. Nothing is written into a free block, so
 * that its untouched pages are not touched here, and a write after free corrupts nothing.
 *
 * Hardened blocks are in slabs and runs; hardened modes have no medium blocks.
 *
 * Callers: front_path.c, large.c, exhausted.c, profile/, census.c. Any thread. Locks only
 * through the page layer.
 */
#ifndef PS_HEAP_MEDIUM_PATH_H
#define PS_HEAP_MEDIUM_PATH_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/page/medium.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called once, before the first block. */
void ps_medium_start(const struct ps_config *config);

/* Constant after that. */
extern PS_HIDDEN size_t ps_medium_limit_bytes; /* requests below it are served; 0: none */
extern PS_HIDDEN size_t ps_medium_more_pages;  /* of a page of the system than one of 4 KiB */

/* True if a request above the classes is served by a medium block. align: power of two. */
static inline bool ps_medium_is_size(size_t bytes, size_t align) {
    return bytes < ps_medium_limit_bytes && align <= PS_MEDIUM_ALIGN_LIMIT << PS_MEDIUM_PAGE_SHIFT;
}

/* The length of a block for a request. */
PS_INLINE size_t ps_medium_pages_for(size_t bytes) {
    size_t pages = (bytes + (bytes == 0) + PS_MEDIUM_PAGE_BYTES - 1) >> PS_MEDIUM_PAGE_SHIFT;
    return (pages + ps_medium_more_pages) & ~ps_medium_more_pages;
}

/* A block of so many pages from the thread's front; NULL: it has none. */
PS_INLINE void *ps_medium_pop(size_t pages) {
    void *block = ps_front_pop(ps_front_thread.own, PS_FRONT_LENGTHS + pages);
    if (PS_LIKELY(block != NULL)) {
        /* relaxed: other threads read the mark if they own the block, or for a census. */
        ps_store_relaxed(ps_medium_mark(ps_page_map_slot(block), block), (uint8_t)pages);
    }
    return block;
}

/* For when there is none. NULL when memory is exhausted, with errno unchanged. is_zero: may be
 * NULL, here and below. */
void *ps_medium_refill(size_t pages, bool *is_zero);

/* Allocates a block. NULL as above. */
void *ps_medium_alloc(size_t bytes, size_t align, bool *is_zero);

/* slot: the address's, which may be any in a region. One where no live block starts is passed to
 * the mode. */
void ps_medium_free(struct ps_slot *slot, void *address);

/* Requests served by medium blocks. A snapshot. */
uint64_t ps_medium_requests(void);

/* True if a live block starts at an address in a region. slot: the address's, here and below. */
static inline bool ps_medium_is_live(const struct ps_slot *slot, const void *address) {
    /* relaxed: written by the thread that allocated or freed the block. */
    uint8_t mark = ps_load_relaxed(ps_medium_mark(slot, address));
    return (uint8_t)(mark - 1) < PS_MEDIUM_PAGES_LIMIT &&
           (uintptr_t)address % PS_MEDIUM_PAGE_BYTES == 0;
}

/* ---- sampled blocks (profile/profile.h) ----
 * Their mark tells neither length nor liveness: every call with one is passed to the mode as one
 * with a stray pointer, and the mode knows its length. */

static inline bool ps_medium_is_sampled(const struct ps_slot *slot, const void *address) {
    /* relaxed: as in ps_medium_is_live. */
    return ps_load_relaxed(ps_medium_mark(slot, address)) == PS_MEDIUM_SAMPLED &&
           (uintptr_t)address % PS_MEDIUM_PAGE_BYTES == 0;
}

/* Allocates a sampled block; NULL as ps_medium_alloc. bytes, align: a medium block's, or less. */
void *ps_medium_alloc_sampled(size_t bytes, size_t align);

/* Makes a live block sampled; or a sampled one, whose length the caller knows, live. */
void ps_medium_set_sampled(void *block);
void ps_medium_set_live(void *block, size_t bytes);

/* Frees a sampled block, whose length the caller knows. */
void ps_medium_free_sampled(void *block, size_t bytes);

/* ---- live blocks ---- */

static inline size_t ps_medium_usable(const struct ps_slot *slot, const void *block) {
    /* relaxed: the block is the caller's. */
    return (size_t)ps_load_relaxed(ps_medium_mark(slot, block)) << PS_MEDIUM_PAGE_SHIFT;
}

/* True if a block so long serves a request: it may be up to an eighth longer. */
bool ps_medium_serves(size_t block_bytes, size_t bytes);

/* Grows or shrinks the block in place, to a length that ps_medium_is_size is true of. Returns false
 * when the pages after it are in use. */
bool ps_medium_set_length(struct ps_slot *slot, void *block, size_t bytes);

/* Pages in use in a region: live blocks and those in fronts. */
struct ps_medium_use {
    uint64_t live_count;
    uint64_t live_pages;
    uint64_t waiting_pages;
};

/* Adds the use of the region that starts at a slot. A snapshot. */
void ps_medium_add_use(struct ps_slot *head, struct ps_medium_use *use);

#endif
