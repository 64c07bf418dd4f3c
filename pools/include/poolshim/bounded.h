/* SPDX-License-Identifier: MIT */
/*
 * bounded.h - a fixed number of objects that any thread allocates and any thread frees.
 *
 * Creation takes all memory; from then on no call takes more, locks, or blocks. Use it where memory
 * must be bounded and no thread may stop another: packets between the stages of a pipeline, orders,
 * buffers of an audio or network thread.
 *
 *     struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, 4096, NULL);
 *     struct packet *packet = ps_bounded_alloc(pool);      // NULL: all are in use
 *     ps_bounded_free(pool, packet);                       // by any thread
 *     ps_bounded_destroy(pool);
 *
 * Each thread caches up to cache_items free objects of its own, so that the usual call touches no
 * memory that others write. They come from, and go to, a list that all threads share, half of them
 * at a time by one compare-and-swap. Objects in the cache of a running thread are not available to
 * others: an alloc may return NULL while up to cache_items objects are free in each other thread.
 * Make the pool larger by that, or set is_exact: then there are no caches, and NULL means that at
 * one moment all objects were in use. The cached objects of an ended thread are available to all.
 *
 * Threads: alloc and free by any thread at any time, not in signal handlers (fixed.h has a pool for
 * those). create and destroy by one thread, while no other uses the pool. The child of a fork may
 * use the pool; an object that another thread was just moving may be lost there.
 *
 * Cost: 15 to 20 inlined instructions without an atomic read-modify-write; every cache_items / 2
 * calls at the most, one compare-and-swap. is_exact: one for each call. Every call ends: a swap is
 * repeated only when another thread's has succeeded. Objects never used before are not touched.
 * 8 bytes per object, and 64 per thread, beside the objects.
 *
 * A second free, and the free of a foreign pointer or of one into an object, is found in every
 * build. PS_DEBUG=check: free objects are filled and poisoned. PS_DEBUG=malloc: each object is a
 * malloc block; their number is bounded as before.
 *
 * Caches over a shared store that moves objects in bulk are those of DPDK's mempool and of
 * Bonwick's magazines; the shared list is Treiber's stack of lists, with a counter against ABA, as
 * the node list of boost::lockfree.
 */
#ifndef POOLSHIM_BOUNDED_H
#define POOLSHIM_BOUNDED_H

#include <poolshim/source.h>
#include <poolshim/thread_number.h>

PS_BEGIN_DECLS

#define PS_BOUNDED_COUNT_MAX PS_CAST(size_t, 0x7fffffff)

/* The library's own: links of the last free object of a list, and of an object in use. */
#define PS_BOUNDED_NONE 0xffffffffu
#define PS_BOUNDED_IN_USE 0xfffffffeu

struct ps_bounded_options {
    struct ps_chunk_options chunks; /* one chunk for everything; lengths and oom are not used */
    size_t cache_items; /* free objects that a thread caches at most, 2 or more; 0: 64, or an eighth
                           of the pool if that is less */
    size_t threads;     /* that have a cache, at most PS_THREAD_NUMBER_MAX; others use the shared
                           list; 0: 64 */
    bool is_exact;      /* no caches: see above */
};

/* The library's own: a thread's free objects, two lists, as length << 32 | first object. */
struct ps_bounded_cache {
    uint64_t x_first;
    uint64_t x_second; /* empty, or of batch_count objects */
    uint64_t unused[6];
};

/* The fields are the library's own. Those that change are on other cache lines. */
struct ps_bounded {
    struct ps_bounded_cache *caches; /* of thread number 1, 2, ... */
    char *objects;
    uint32_t *x_next;            /* of each object: the next free one of its list */
    uint64_t reciprocal;         /* 2^63 / stride, rounded up; 0: not for this size */
    size_t stride;               /* bytes from one object to the next */
    uint32_t inline_cache_count; /* cache_count; 0 in debug modes: calls are not inlined */
    uint32_t count;
    uint32_t batch_count; /* objects that move at a time */
    uint32_t cache_count;
};

/*
 * Makes a pool of `count` objects, 1 to PS_BOUNDED_COUNT_MAX. size: bytes of an object, 0 counts as
 * 1. align: a power of two up to 4096; 0 is the largest power of two that divides size, at most 16.
 * options: NULL for the defaults; not retained. NULL: EINVAL for an argument out of range, ENOMEM
 * when the source refuses. O(threads).
 */
PS_API struct ps_bounded *ps_bounded_create(size_t size, size_t align, size_t count,
                                            const struct ps_bounded_options *options);

/* Gives the memory back, that of objects in use too. pool: NULL does nothing. Preserves errno.
 * O(1). */
PS_API void ps_bounded_destroy(struct ps_bounded *pool) PS_NOEXCEPT;

/* The slow halves of the inline functions below. */
PS_API void *ps_bounded_alloc_slow(struct ps_bounded *pool) PS_NOEXCEPT;
PS_API void ps_bounded_free_slow(struct ps_bounded *pool, void *object) PS_NOEXCEPT;

/* The library's own: the number of an object; `count` or more: it is none, or this is not
 * computed inline. */
static inline size_t ps_bounded_index(const struct ps_bounded *pool, const void *object) {
    size_t offset = (size_t)((uintptr_t)object - (uintptr_t)pool->objects);
    __extension__ typedef unsigned __int128 wide;
    size_t index = (size_t)((wide)pool->reciprocal * (2 * offset) >> 64);
    bool is_object = offset >> 31 == 0 && pool->reciprocal != 0 && index * pool->stride == offset;
    return is_object ? index : SIZE_MAX;
}

/*
 * An object, uninitialised or as it was left. NULL and ENOMEM: see above. O(1); O(threads) when it
 * returns NULL.
 */
PS_MALLOC static inline void *ps_bounded_alloc(struct ps_bounded *pool) PS_NOEXCEPT {
    uint32_t number = (uint32_t)ps_thread_self - 1;
    if (__builtin_expect(number < pool->inline_cache_count, 1)) {
        struct ps_bounded_cache *cache = &pool->caches[number];
        uint64_t first = cache->x_first;
        uint32_t index = (uint32_t)first;
        if (__builtin_expect(index != PS_BOUNDED_NONE, 1)) {
            uint32_t *x_next = &pool->x_next[index];
            /* relaxed: this thread has the object; others may read a stale value, and then their
             * swap fails. */
            uint64_t next = __atomic_load_n(x_next, __ATOMIC_RELAXED);
            /* release: in this order for the child of a fork. */
            __atomic_store_n(&cache->x_first, ((first >> 32) - 1) << 32 | next, __ATOMIC_RELEASE);
            __atomic_store_n(x_next, PS_BOUNDED_IN_USE, __ATOMIC_RELAXED); /* relaxed: as above */
            return pool->objects + (size_t)index * pool->stride;
        }
    }
    return ps_bounded_alloc_slow(pool);
}

/* Frees an object of this pool, whichever thread has allocated it. NULL does nothing. Preserves
 * errno. O(1). */
static inline void ps_bounded_free(struct ps_bounded *pool, void *object) PS_NOEXCEPT {
    uint32_t number = (uint32_t)ps_thread_self - 1;
    size_t index = ps_bounded_index(pool, object);
    if (__builtin_expect(number < pool->inline_cache_count && index < pool->count, 1)) {
        struct ps_bounded_cache *cache = &pool->caches[number];
        uint64_t first = cache->x_first;
        uint32_t *x_next = &pool->x_next[index];
        /* relaxed: as in ps_bounded_alloc. */
        if (__builtin_expect(first >> 32 < pool->batch_count &&
                                 __atomic_load_n(x_next, __ATOMIC_RELAXED) == PS_BOUNDED_IN_USE,
                             1)) {
            __atomic_store_n(x_next, (uint32_t)first, __ATOMIC_RELAXED); /* relaxed: as there */
            /* release: in this order for the child of a fork. */
            __atomic_store_n(&cache->x_first, ((first >> 32) + 1) << 32 | index, __ATOMIC_RELEASE);
            return;
        }
    }
    ps_bounded_free_slow(pool, object);
}

/* Makes the cached objects of the calling thread available to all. O(cache_items). */
PS_API void ps_bounded_flush(struct ps_bounded *pool) PS_NOEXCEPT;

/* Lists the pool in the registry of poolshim/registry.h, until it is destroyed; does nothing if it
 * is listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_bounded_enlist(struct ps_bounded *pool) PS_NOEXCEPT;

struct ps_bounded_stats {
    const char *name;
    size_t size_bytes;    /* of an object, as requested */
    size_t stride_bytes;  /* what one takes */
    size_t count;         /* objects */
    size_t used_count;    /* allocated */
    size_t touched_count; /* ever allocated */
    size_t cache_items;   /* free objects that a thread caches at most; 0: none */
    size_t total_bytes;   /* taken from the source */
};
/* Counts are of a moment that other threads may have passed already. O(objects). */
PS_API void ps_bounded_stats(struct ps_bounded *pool, struct ps_bounded_stats *stats) PS_NOEXCEPT;

/* Walks the pool while no thread uses it: each object is in use or on one list, once. O(objects).
 */
PS_API bool ps_bounded_check(struct ps_bounded *pool) PS_NOEXCEPT;

PS_END_DECLS

#endif
