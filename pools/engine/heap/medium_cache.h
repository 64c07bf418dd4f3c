/* SPDX-License-Identifier: MIT */
/*
 * A thread's cache of medium blocks (page/medium.h): its heap caches the blocks that it frees,
 * whichever thread allocated them, in a bin for each length, for its next requests, without a lock.
 * Half of a full bin, or a quarter of a full cache, returns to the regions at once. The whole cache
 * returns periodically, at the end of the thread and when the heap is taken (thread.h). Medium
 * blocks have no owner, so a free by another thread takes the same path.
 *
 * The limit of a cache is 128 KiB, or one longer block. If it serves many requests, the limit is a
 * page for each eight of them since the last return. Its bounds are 4 MiB, and the thread's share
 * of 16 MiB for each processor: little for rare requests, enough for a program that would otherwise
 * take shared locks hundreds of thousands of times a second.
 *
 * A bin is an array, not a list through the blocks: untouched pages of a block are not touched
 * here, and a write after free corrupts nothing. The mark of a block tells whether it is live or
 * cached.
 *
 * Hardened blocks are in spans and runs; hardened modes have no medium blocks.
 *
 * Callers: large.c, slow_path.c, maintenance.c, thread.c, start.c, census.c. The owner of the heap,
 * or any thread if the heap is NULL. Locks only through the page layer.
 */
#ifndef PS_HEAP_MEDIUM_CACHE_H
#define PS_HEAP_MEDIUM_CACHE_H

#include "pools/engine/base/config.h"
#include "pools/engine/page/medium.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_MEDIUM_LONGEST 64        /* pages of a block that is cached */
#define PS_MEDIUM_BIN_BLOCKS 8      /* cached in a bin */
#define PS_MEDIUM_PAGES_FIRST 32    /* limit of cached pages at first, or one longer block */
#define PS_MEDIUM_PAGES_MOST 1024   /* and at most */
#define PS_MEDIUM_PAGES_OF_CPU 4096 /* and in all threads, for each processor */
#define PS_MEDIUM_TAKES_A_PAGE 8    /* requests served since the last return that allow a page */
#define PS_MEDIUM_ASKS_PER_TICK 16  /* between two readings of the clock */

/*
 * The cached blocks, in a bin for each number of pages. At each instant a block is in at most two
 * entries, and a live block in none, for the child of a fork by another thread.
 */
struct ps_medium_cache {
    uint64_t x_sums;  /* three numbers, see below; owner writes */
    uint64_t x_frees; /* so far; the last few are in the sums. Owner writes, census reads */
    uint32_t taken;   /* requests served at the last return, modulo 2^32 */
    uint32_t seen;    /* and at the last call of ps_medium_return_idle */
    uint16_t limit;   /* most cached pages; 0: none is cached, and the next free computes it */
    uint16_t asks;    /* requests that found no block here, modulo 65536 */
    uint8_t next_bin; /* from which blocks return when the cache is full */
    uint8_t counts[PS_MEDIUM_LONGEST + 1];
    /* Newest last. */
    PS_ALIGNED(PS_CACHE_LINE) void *blocks[PS_MEDIUM_LONGEST + 1][PS_MEDIUM_BIN_BLOCKS];
};

/*
 * In one word, so that a take or a free loads, checks and stores all of them at once: the room for
 * further pages; whether a free may add a block without a call of ps_medium_free; the blocks freed
 * since the clock was read; and the requests served. There is no room, and no block is cached,
 * while the limit is 0.
 */
#define PS_MEDIUM_SUMS_ROOM 0x7fff
#define PS_MEDIUM_SUMS_OPEN 0x8000
#define PS_MEDIUM_SUMS_FREES 16 /* first bit */
#define PS_MEDIUM_SUMS_TAKES 32 /* likewise */
#define PS_MEDIUM_FREES_PER_LOOK 32
/* A free that has room, and for which the clock is not due, leaves OPEN alone of these bits. One
 * that has none clears it, or sets the bit below it, too. */
#define PS_MEDIUM_SUMS_CHECKED                                                                     \
    (PS_MEDIUM_SUMS_OPEN | PS_MEDIUM_SUMS_OPEN >> 1 |                                              \
     PS_MEDIUM_FREES_PER_LOOK << PS_MEDIUM_SUMS_FREES)

_Static_assert(PS_MEDIUM_PAGES_MOST + PS_MEDIUM_LONGEST < PS_MEDIUM_SUMS_OPEN >> 1, "room");

static inline size_t ps_medium_cache_frees(const struct ps_medium_cache *cache) {
    /* relaxed, both: a snapshot, of a heap that may be another thread's. */
    uint16_t last = (uint16_t)(ps_load_relaxed(&cache->x_sums) >> PS_MEDIUM_SUMS_FREES);
    return ps_load_relaxed(&cache->x_frees) + last;
}
static inline uint32_t ps_medium_cache_takes(const struct ps_medium_cache *cache) {
    return (uint32_t)(cache->x_sums >> PS_MEDIUM_SUMS_TAKES);
}
/* Cached pages. */
static inline size_t ps_medium_cache_pages(const struct ps_medium_cache *cache) {
    return cache->limit - (cache->x_sums & PS_MEDIUM_SUMS_ROOM);
}

struct ps_heap;

/* Called once, before the first block. */
void ps_medium_cache_start(const struct ps_config *config);

/* True if a request above the classes is served by a medium block. align: power of two. */
bool ps_medium_is_size(size_t bytes, size_t align);

static inline uint8_t *ps_medium_mark_of(const void *block) {
    return ps_medium_mark(ps_page_map_slot(block), block);
}

/* Removes the newest cached block of so many pages; count: of these blocks in the cache, at least
 * one. */
static inline void *ps_medium_pop(struct ps_medium_cache *cache, size_t pages, size_t count) {
    void *block = cache->blocks[pages][count - 1];
    cache->counts[pages] = (uint8_t)(count - 1);
    /* relaxed: other threads read a snapshot. */
    ps_store_relaxed(&cache->x_sums, cache->x_sums + ((uint64_t)1 << PS_MEDIUM_SUMS_TAKES) + pages);
    ps_fence_program_order(); /* for the child of a fork: a live block is in no bin */
    /* relaxed: other threads read the mark if they own the block, or for a census. */
    ps_store_relaxed(ps_medium_mark_of(block), (uint8_t)pages);
    if (block == NULL) {
        __builtin_unreachable(); /* saves the callers a test */
    }
    return block;
}

/* The newest cached block of as many pages as a request takes, or NULL. */
static inline void *ps_medium_take_waiting(struct ps_medium_cache *cache, size_t bytes) {
    size_t pages = (bytes + PS_MEDIUM_PAGE_BYTES - 1) >> PS_MEDIUM_PAGE_SHIFT;
    if (PS_UNLIKELY(pages > PS_MEDIUM_LONGEST)) {
        return NULL;
    }
    size_t count = cache->counts[pages]; /* 0 if the sum wraps: no block has 0 pages */
    return PS_LIKELY(count != 0) ? ps_medium_pop(cache, pages, count) : NULL;
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

/* Adds a block to its bin, which has room. sums: with it. mark: its own. */
static inline void ps_medium_push(struct ps_medium_cache *cache, void *block, size_t pages,
                                  uint8_t *mark, uint64_t sums) {
    /* relaxed, both: as in ps_medium_pop. */
    ps_store_relaxed(mark, (uint8_t)(pages | PS_MEDIUM_WAITS));
    cache->blocks[pages][cache->counts[pages]] = block;
    ps_fence_program_order(); /* for the child of a fork: the block before the count */
    cache->counts[pages]++;
    ps_store_relaxed(&cache->x_sums, sums);
}

/* The sums when one more block is freed. */
static inline uint64_t ps_medium_sums_after_free(const struct ps_medium_cache *cache,
                                                 size_t pages) {
    return cache->x_sums + ((uint64_t)1 << PS_MEDIUM_SUMS_FREES) - pages;
}

/* Frees a block in the usual case. Returns false, without effect, in others, which ps_medium_free
 * handles. */
static inline bool ps_medium_free_soon(struct ps_medium_cache *cache, struct ps_slot *slot,
                                       void *address) {
    uint8_t *mark = ps_medium_mark(slot, address);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    if (PS_UNLIKELY(pages - 1 >= PS_MEDIUM_LONGEST ||
                    (uintptr_t)address % PS_MEDIUM_PAGE_BYTES != 0)) {
        return false;
    }
    uint64_t sums = ps_medium_sums_after_free(cache, pages);
    if (PS_UNLIKELY((sums & PS_MEDIUM_SUMS_CHECKED) != PS_MEDIUM_SUMS_OPEN ||
                    cache->counts[pages] == PS_MEDIUM_BIN_BLOCKS)) {
        return false;
    }
    ps_medium_push(cache, address, pages, mark, sums);
    return true;
}

/* heap: of the calling thread, or NULL. Any address in a region: one where no
 * live block starts is passed to the mode. True if it is time to read the clock. */
bool ps_medium_free(struct ps_heap *heap, struct ps_slot *slot, void *block);

/* True if a block so long serves a request: it may be up to an eighth longer. */
bool ps_medium_serves(size_t block_bytes, size_t bytes);

/* Grows or shrinks the block in place, to a length that ps_medium_is_size is true of. Returns false
 * when the pages after it are in use. */
bool ps_medium_set_length(struct ps_slot *slot, void *block, size_t bytes);

/* Returns all cached blocks to their regions. */
void ps_medium_flush(struct ps_heap *heap);

/* Returns them if no request was served from the cache since the last call. */
void ps_medium_return_idle(struct ps_heap *heap);

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
