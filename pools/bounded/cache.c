/* SPDX-License-Identifier: MIT */
/*
 * The caches of threads: moves objects to and from the shared stacks, and recovers the caches of
 * ended threads. See bounded.h. Called by bounded.c. No locks; only the owner of the thread's
 * number writes its cache. The stores to a cache are releases, so that the child of a fork, in
 * which the thread does not exist, sees them in program order.
 */
#include "pools/bounded/bounded.h"
#include "pools/common/thread_number.h"

static void set_list(uint64_t *x_list, uint64_t list) {
    ps_store_release(x_list, list); /* release: see above */
}

struct ps_bounded_cache *ps_bounded_cache_own(struct bounded_pool *pool) {
    uint32_t number = pool->face.cache_count != 0 ? ps_thread_number_ask() : 0;
    return number - 1 < pool->face.cache_count ? &pool->face.caches[number - 1] : NULL;
}

/* The first object of a list of the cache, which has one. */
static uint32_t pop(struct bounded_pool *pool, uint64_t *x_list) {
    uint32_t index = (uint32_t)*x_list;
    set_list(x_list, bounded_list((*x_list >> 32) - 1, bounded_next(pool, index)));
    return index;
}

/* From ended threads, at last. */
static uint32_t take_reclaimed(struct bounded_pool *pool) {
    while (ps_bounded_reclaim(pool)) { /* ends: each time fewer caches have any */
        uint32_t index = ps_bounded_take_single(pool);
        if (index != PS_BOUNDED_NONE) {
            return index;
        }
    }
    return PS_BOUNDED_NONE;
}

/* Without a cache, one at a time; a batch is taken apart. */
static uint32_t take_uncached(struct bounded_pool *pool) {
    uint32_t index = ps_bounded_take_single(pool);
    if (index == PS_BOUNDED_NONE) {
        index = (uint32_t)ps_bounded_take_untouched(pool, 1);
    }
    if (index == PS_BOUNDED_NONE) {
        index = ps_bounded_take_batch(pool);
        if (index != PS_BOUNDED_NONE) {
            ps_bounded_put_singles(pool, bounded_next(pool, index));
        }
    }
    return index != PS_BOUNDED_NONE ? index : take_reclaimed(pool);
}

/* A list for an empty cache; empty: there is none. */
static uint64_t take_list(struct bounded_pool *pool) {
    uint32_t first = ps_bounded_take_batch(pool);
    if (first != PS_BOUNDED_NONE) {
        return bounded_list(pool->face.batch_count, first);
    }
    first = ps_bounded_take_single(pool);
    if (first != PS_BOUNDED_NONE) {
        bounded_set_next(pool, first, PS_BOUNDED_NONE);
        return bounded_list(1, first);
    }
    return ps_bounded_take_untouched(pool, pool->face.batch_count);
}

uint32_t ps_bounded_cache_take(struct bounded_pool *pool, struct ps_bounded_cache *cache) {
    if (cache == NULL) {
        return take_uncached(pool);
    }
    if ((uint32_t)cache->x_first == PS_BOUNDED_NONE) {
        uint64_t list = cache->x_second;
        if ((uint32_t)list != PS_BOUNDED_NONE) {
            set_list(&cache->x_second, BOUNDED_EMPTY);
        } else {
            list = take_list(pool);
        }
        if ((uint32_t)list == PS_BOUNDED_NONE) {
            return take_reclaimed(pool);
        }
        set_list(&cache->x_first, list);
    }
    return pop(pool, &cache->x_first);
}

void ps_bounded_cache_put(struct bounded_pool *pool, struct ps_bounded_cache *cache,
                          uint32_t index) {
    if (cache == NULL) {
        ps_bounded_put_single(pool, index);
        return;
    }
    if (cache->x_first >> 32 == pool->face.batch_count) {
        uint32_t surplus = (uint32_t)cache->x_second;
        uint64_t full = cache->x_first;
        set_list(&cache->x_second, BOUNDED_EMPTY);
        set_list(&cache->x_first, BOUNDED_EMPTY);
        if (surplus != PS_BOUNDED_NONE) {
            ps_bounded_put_batch(pool, surplus);
        }
        set_list(&cache->x_second, full);
    }
    bounded_set_next(pool, index, (uint32_t)cache->x_first);
    set_list(&cache->x_first, bounded_list((cache->x_first >> 32) + 1, index));
}

void ps_bounded_cache_flush(struct bounded_pool *pool, struct ps_bounded_cache *cache) {
    uint32_t first = (uint32_t)cache->x_first;
    uint32_t second = (uint32_t)cache->x_second;
    set_list(&cache->x_first, BOUNDED_EMPTY);
    set_list(&cache->x_second, BOUNDED_EMPTY);
    ps_bounded_put_singles(pool, first);
    ps_bounded_put_singles(pool, second);
}

bool ps_bounded_reclaim(struct bounded_pool *pool) {
    bool is_any = false;
    for (uint32_t number = 1; number <= pool->face.cache_count; number++) {
        struct ps_bounded_cache *cache = &pool->face.caches[number - 1];
        if (ps_thread_number_claim(number)) {
            is_any = is_any || (uint32_t)cache->x_first != PS_BOUNDED_NONE ||
                     (uint32_t)cache->x_second != PS_BOUNDED_NONE;
            ps_bounded_cache_flush(pool, cache);
            ps_thread_number_release(number);
        }
    }
    return is_any;
}
