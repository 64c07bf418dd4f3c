/* SPDX-License-Identifier: MIT */
/*
 * Bounded pools, within. Included by pools/bounded/: bounded.c calls cache.c, and both call
 * shared.c. No locks.
 *
 * An object is in exactly one of these places, but while a call moves it:
 *
 *   in use             its link is PS_BOUNDED_IN_USE
 *   in a thread's cache: two lists, by links. A thread writes its own alone, one word at a time,
 *                      and empties a place before it puts the list elsewhere: the child of a fork,
 * where that thread does not exist, may miss a list and never has one twice on x_batches       a
 * stack of lists of batch_count objects; x_down leads from one to the next on x_singles       a
 * stack of objects, by links at or above x_touched: never used
 *
 * Both stacks have, in the upper half of their word, the number of takes so far: what a thread has
 * read as the next one is of no use to it when others took and put since.
 */
#ifndef PS_BOUNDED_BOUNDED_H
#define PS_BOUNDED_BOUNDED_H

#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"

#include <poolshim/bounded.h>

struct bounded_pool {
    struct ps_bounded face; /* first member */
    uint32_t *x_down;       /* of the first object of a batch: that of the next batch */
    size_t size_bytes;
    size_t chunk_bytes;
    bool is_malloc;
    bool is_checked;
    struct ps_chunks chunks;

    PS_ALIGNED(PS_CACHE_LINE)
    uint64_t x_batches; /* takes << 32 | first object of the top batch */
    PS_ALIGNED(PS_CACHE_LINE)
    uint64_t x_singles; /* takes << 32 | top object */
    uint64_t
        x_touched; /* objects ever allocated, or more than count. PS_DEBUG=malloc: blocks in use */
};

#define BOUNDED_EMPTY ((uint64_t)PS_BOUNDED_NONE)

static inline struct bounded_pool *bounded_pool_of(struct ps_bounded *pool) {
    return (struct bounded_pool *)(void *)pool;
}

static inline uint64_t bounded_list(uint64_t length, uint32_t first) {
    return length << 32 | first;
}

static inline uint32_t bounded_next(const struct bounded_pool *pool, uint32_t index) {
    /* relaxed: ordered by how the object was had. */
    return ps_load_relaxed(&pool->face.x_next[index]);
}

static inline void bounded_set_next(struct bounded_pool *pool, uint32_t index, uint32_t next) {
    /* relaxed: published with the list that the object joins. */
    ps_store_relaxed(&pool->face.x_next[index], next);
}

/* shared.c. PS_BOUNDED_NONE: there is none. */
uint32_t ps_bounded_take_batch(struct bounded_pool *pool);
void ps_bounded_put_batch(struct bounded_pool *pool, uint32_t first);
uint32_t ps_bounded_take_single(struct bounded_pool *pool);
void ps_bounded_put_single(struct bounded_pool *pool, uint32_t index);

/* shared.c: puts a list of any length, one object at a time. */
void ps_bounded_put_singles(struct bounded_pool *pool, uint32_t first);

/* shared.c: a list of up to `most` objects that were never used; empty: there are none. */
uint64_t ps_bounded_take_untouched(struct bounded_pool *pool, uint32_t most);

/* cache.c: an object from the cache of the calling thread, refilled from the shared ones if need
 * be; cache: NULL for threads that have none. PS_BOUNDED_NONE: there is none. */
uint32_t ps_bounded_cache_take(struct bounded_pool *pool, struct ps_bounded_cache *cache);
void ps_bounded_cache_put(struct bounded_pool *pool, struct ps_bounded_cache *cache,
                          uint32_t index);

/* cache.c: gives all that a cache has to the shared stacks. The caller owns the cache. */
void ps_bounded_cache_flush(struct bounded_pool *pool, struct ps_bounded_cache *cache);

/* cache.c: the same for the caches of threads that have ended. True if there was anything. */
bool ps_bounded_reclaim(struct bounded_pool *pool);

/* The calling thread's cache, NULL: it has none. */
struct ps_bounded_cache *ps_bounded_cache_own(struct bounded_pool *pool);

#endif
