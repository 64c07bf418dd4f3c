/* SPDX-License-Identifier: MIT */
/*
 * A thread's cache of medium blocks (page/medium.h): the newest few that it freed, whichever thread
 * allocated them, are kept in its heap and serve its next requests without a lock. The oldest
 * pass to the processor's cache (cpu_medium.h) when there are too many, or return to their regions,
 * and so do all of them periodically and at the end of the thread. A block has no owner, so a free
 * by another thread is not special.
 *
 * Not a list through the blocks: a block of which only the head was touched stays sparse, and a
 * write after free corrupts nothing. The mark of a block tells whether it is live or cached.
 *
 * Hardened blocks are in spans and runs; hardened modes have no medium blocks.
 *
 * Callers: large.c, slow_path.c, maintenance.c, thread.c, start.c, census.c. The owner of the
 * heap, or any thread if the heap is NULL. Locks only through the page layer.
 */
#ifndef PS_HEAP_MEDIUM_CACHE_H
#define PS_HEAP_MEDIUM_CACHE_H

#include "pools/engine/base/config.h"
#include "pools/engine/page/medium.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_MEDIUM_CACHE_PAGES 32 /* cached per thread: 128 KiB, or one longer block */
#define PS_MEDIUM_CACHE_LIMIT 12
#define PS_MEDIUM_ASKS_PER_TICK 16 /* between two readings of the clock */

/*
 * pages == sum of the blocks' pages. Changed so that the child of a fork, which does not have the
 * thread, finds each block at most twice and no live block.
 */
struct ps_medium_cache {
    uint32_t sums; /* three numbers, see below */
    uint16_t asks; /* requests that found no block here, modulo 65536 */
    uint16_t cpu;  /* index of the processor's cache that this thread uses: see cpu_lock.h */
    struct ps_medium_entry {
        ps_medium_block block;
        uint8_t *mark;                /* the block's; has WAITS */
    } entries[PS_MEDIUM_CACHE_LIMIT]; /* newest last */
    uint64_t x_frees;                 /* so far; the last few are in sums. Census reads */
};

_Static_assert(sizeof(struct ps_medium_cache) == 208, "fits in the first page of a heap");

/*
 * How many blocks wait, of how many pages they are, and how many were freed since the clock was
 * read: in one word, so that a free loads, checks and stores all of them at once. Each has room for
 * what a free adds to its limit. FULL_BIAS, added, carries what is above a limit into the bits of
 * FULL: a thirteenth block, a 33rd page, the free at which the clock is due.
 */
#define PS_MEDIUM_SUMS_PAGES 8  /* first bit */
#define PS_MEDIUM_SUMS_FREES 20 /* likewise */
#define PS_MEDIUM_FREES_PER_LOOK 32
#define PS_MEDIUM_SUMS_FULL_BIAS                                                                   \
    ((15u - PS_MEDIUM_CACHE_LIMIT) | (63u - PS_MEDIUM_CACHE_PAGES) << PS_MEDIUM_SUMS_PAGES)
#define PS_MEDIUM_SUMS_FULL                                                                        \
    (16u | 192u << PS_MEDIUM_SUMS_PAGES | PS_MEDIUM_FREES_PER_LOOK << PS_MEDIUM_SUMS_FREES)

_Static_assert(PS_MEDIUM_CACHE_LIMIT < 16 && PS_MEDIUM_CACHE_PAGES < 64 &&
                   63 + PS_MEDIUM_PAGES_LIMIT < 256,
               "a number above its limit has a bit of FULL");

static inline size_t ps_medium_cache_count(const struct ps_medium_cache *cache) {
    return cache->sums & 0xff;
}
static inline size_t ps_medium_cache_pages(const struct ps_medium_cache *cache) {
    return (cache->sums >> PS_MEDIUM_SUMS_PAGES) & 0xfff;
}
static inline size_t ps_medium_cache_frees(const struct ps_medium_cache *cache) {
    /* relaxed, both: a snapshot, of a heap that may be another thread's. */
    return ps_load_relaxed(&cache->x_frees) +
           (ps_load_relaxed(&cache->sums) >> PS_MEDIUM_SUMS_FREES);
}
/* So many blocks of together so many pages. */
static inline uint32_t ps_medium_sums_of(size_t blocks, size_t pages) {
    return (uint32_t)(blocks | pages << PS_MEDIUM_SUMS_PAGES);
}

struct ps_heap;

/* Called once, before the first block. */
void ps_medium_cache_start(const struct ps_config *config);

/* True if a request above the classes is served by a medium block. align: power of two. */
bool ps_medium_is_size(size_t bytes, size_t align);

/* True if a block has this many pages, or at most an eighth more. */
static inline bool ps_medium_suits(ps_medium_block block, size_t pages) {
    return ps_medium_pages_of(block) - pages <= pages / 8;
}

/* The newest cached block, if it suits; else NULL. */
static inline void *ps_medium_take_newest(struct ps_medium_cache *cache, size_t bytes) {
    size_t wanted = (bytes + PS_MEDIUM_PAGE_BYTES - 1) >> PS_MEDIUM_PAGE_SHIFT;
    size_t count = ps_medium_cache_count(cache);
    if (PS_UNLIKELY(count == 0)) {
        return NULL;
    }
    struct ps_medium_entry newest = cache->entries[count - 1];
    size_t pages = ps_medium_pages_of(newest.block);
    /* If the sum wraps, wanted is 0, which no block suits. */
    if (PS_UNLIKELY(!ps_medium_suits(newest.block, wanted))) {
        return NULL;
    }
    ps_owner_add(&cache->sums, 0 - ps_medium_sums_of(1, pages));
    ps_fence_program_order(); /* for the child of a fork: a live block is not listed */
    /* relaxed: other threads read the mark while they hold the block, or for a census. */
    ps_store_relaxed(newest.mark, (uint8_t)pages);
    return ps_medium_address_of(newest.block);
}

/* Allocates a block, cached or not; heap may be NULL. NULL when memory is exhausted, with errno
 * unchanged. is_zero: may be NULL. */
void *ps_medium_alloc(struct ps_heap *heap, size_t bytes, size_t align, bool *is_zero);

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

/* Makes a live block sampled; or a sampled one, of which the caller knows the length, live. */
void ps_medium_set_sampled(void *block);
void ps_medium_set_live(void *block, size_t bytes);

/* Frees a sampled block, of which the caller knows the length. */
void ps_medium_free_sampled(void *block, size_t bytes);

/* ---- live blocks ---- */

static inline size_t ps_medium_usable(const struct ps_slot *slot, const void *block) {
    /* relaxed: the block is the caller's. */
    return (size_t)ps_load_relaxed(ps_medium_mark(slot, block)) << PS_MEDIUM_PAGE_SHIFT;
}

/* A block of so many pages, for which there is room, waits; sums: with it. mark: its own. */
static inline void ps_medium_enter(struct ps_medium_cache *cache, void *block, size_t pages,
                                   uint8_t *mark, uint32_t sums) {
    /* relaxed: as in ps_medium_take_newest. */
    ps_store_relaxed(mark, (uint8_t)(pages | PS_MEDIUM_WAITS));
    cache->entries[ps_medium_cache_count(cache)] =
        (struct ps_medium_entry){ps_medium_block_of(block, pages), mark};
    ps_fence_program_order();             /* for the child of a fork: the entry before the count */
    ps_store_relaxed(&cache->sums, sums); /* relaxed: other threads read a snapshot */
}

/* The sums when one more block is freed. */
static inline uint32_t ps_medium_sums_after_free(const struct ps_medium_cache *cache,
                                                 size_t pages) {
    return cache->sums + ps_medium_sums_of(1, pages) + (1u << PS_MEDIUM_SUMS_FREES);
}

/* Frees a block in the usual case. Returns false, without effect, in others, which ps_medium_free
 * handles. */
static inline bool ps_medium_free_soon(struct ps_medium_cache *cache, struct ps_slot *slot,
                                       void *address) {
    uint8_t *mark = ps_medium_mark(slot, address);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    bool is_block =
        pages - 1 < PS_MEDIUM_PAGES_LIMIT && (uintptr_t)address % PS_MEDIUM_PAGE_BYTES == 0;
    uint32_t sums = ps_medium_sums_after_free(cache, pages);
    if (PS_UNLIKELY(!is_block || ((sums + PS_MEDIUM_SUMS_FULL_BIAS) & PS_MEDIUM_SUMS_FULL) != 0)) {
        return false;
    }
    ps_medium_enter(cache, address, pages, mark, sums);
    return true;
}

/* heap: of the calling thread, or NULL. Any address in a region: one where no
 * live block starts is passed to the mode. True if it is time to read the clock. */
bool ps_medium_free(struct ps_heap *heap, struct ps_slot *slot, void *block);

/* Grows or shrinks the block in place. Returns false when that is impossible. */
bool ps_medium_resize(struct ps_slot *slot, void *block, size_t bytes);

/* Returns waiting blocks, which are in no cache any more, to their regions. */
void ps_medium_return_waiting(const ps_medium_block *blocks, size_t count);

/* Returns all cached blocks to their regions. */
void ps_medium_flush(struct ps_heap *heap);

/* As ps_medium_flush, for a heap whose thread does not exist in this child of a fork. */
void ps_medium_fork_salvage(struct ps_heap *heap);

/* Pages in use in a region: live blocks and those in a thread's cache. */
struct ps_medium_use {
    uint64_t live_count;
    uint64_t live_pages;
    uint64_t waiting_pages;
};

/* Adds the use of the region that starts at a slot. A snapshot. */
void ps_medium_add_use(struct ps_slot *head, struct ps_medium_use *use);

#endif
