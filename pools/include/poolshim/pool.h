/* SPDX-License-Identifier: MIT */
/*
 * pool.h - objects of one size, allocated and freed in any order.
 *
 * An allocation takes the object freed last, or the next of the memory never used so far; a free
 * puts the object on a list. Both are a handful of instructions, inline, whatever the number of
 * objects. Memory is touched when it is first allocated, not before. Chunks double from 4 KiB up
 * to 2 MiB and return to the page cache by ps_pool_trim_to, _reset or _destroy.
 *
 *     struct ps_pool pool;
 *     ps_pool_init(&pool, sizeof(struct point), 0, NULL);
 *     struct point *point = ps_pool_alloc(&pool);
 *     ps_pool_free(&pool, point);
 *     ps_pool_destroy(&pool);
 *
 * Three kinds of pool, by the options and the size:
 *
 *   usual       Objects of 8 bytes and more. Reuse is newest first. Free arrays lie on lists by
 *               length; an array takes one of its length, cuts a longer one, or is cut from memory
 *               never used. Before it grows, the pool merges free neighbours, if an eighth of its
 *               objects has been freed in arrays or added since the last time: its memory depends
 *               on its live objects, not on the number of calls.
 *   ordered     is_ordered. A bit per object marks the free ones. Reuse is by address: low ones
 *               of the older chunks first, except up to 64 that were chosen before. Arrays are
 *               searched for in the bits, lowest first, which takes longer the more memory is free
 *               in arrays too short. A free is O(1) in every order. Knows its live objects
 *               (ps_pool_each). One bit per object of overhead.
 *   tiny        Objects below 8 bytes, down to one byte, without is_ordered. Pages of 4 KiB, links
 *               of one or two bytes inside the free objects. No arrays.
 *
 * A usual pool may be unchecked (is_unchecked): PS_DEBUG and memcheck do not concern it, and single
 * objects may be freed by ps_pool_free_unchecked, two instructions shorter than ps_pool_free.
 *
 * Common to all: one thread at a time. Objects are uninitialised and never move; ps_pool_destroy
 * frees them.
 *
 * PS_DEBUG=check finds objects freed twice, foreign pointers, pointers into an object, arrays freed
 * with another length, and two threads in one pool at once. PS_DEBUG=malloc makes each object a
 * malloc block. See poolshim/common.h for the rules of all families.
 *
 * The simple list of free nodes of equal size inside larger blocks is the simple segregated storage
 * of Boost.Pool; pools for single nodes, arrays and small nodes apart are those of
 * foonathan/memory.
 */
#ifndef POOLSHIM_POOL_H
#define POOLSHIM_POOL_H

#include <poolshim/source.h>

PS_BEGIN_DECLS

/* The largest alignment of objects. */
#define PS_POOL_ALIGN_MAX PS_CAST(size_t, 65536)

struct ps_pool_options {
    struct ps_chunk_options chunks; /* first_bytes: 4 KiB or 16 objects. max_bytes: 2 MiB. */
    size_t max_items;  /* more objects than this at a time: NULL, ENOMEM. 0: no limit */
    bool is_ordered;   /* see above */
    bool is_unchecked; /* a usual pool, whatever PS_DEBUG says; objects take 8 bytes at least */
};

/* All fields are the library's own. */
struct ps_pool_link {
    struct ps_pool_link *next;
} __attribute__((may_alias));

struct ps_pool {
    struct ps_pool_link *free; /* list of free objects; ordered pools: by ascending address */
    char *bump;                /* objects never used: [bump, end) of the current chunk */
    char *end;
    size_t stride;        /* bytes from one object to the next */
    uintptr_t push_above; /* a free pushes objects above this: 0 in usual pools, else UINTPTR_MAX */
    uintptr_t push_below; /* 1 in ordered pools, whose free pushes objects below the head; else 0 */
    bool has_links;       /* objects may be on the list at all: usual and ordered pools */
    bool has_arrays;
    bool is_ordered;
    uint8_t kind;
    struct ps_pool_chunk *current;
    struct ps_pool_chunk *chunks; /* all, newest first */
    struct ps_pool_chunk *recent; /* where the last pointer was found */
    struct ps_pool_chunk *room_first;
    struct ps_pool_chunk *room_last;
    struct ps_pool_entry *table; /* finds the chunk of an address; NULL: few chunks */
    size_t table_size;           /* entries, a power of two */
    size_t table_used;
    size_t uncarved_count; /* objects that may still be cut from memory never used */
    size_t max_items;
    size_t chunk_number; /* of the next chunk */
    uint64_t reciprocal; /* 2^63 / stride, rounded up */
    size_t align;
    size_t size_bytes;
    struct ps_pool_runs *runs;    /* usual pools: free arrays; NULL: none yet */
    struct ps_pool_block *blocks; /* PS_DEBUG=malloc: all objects */
    size_t block_count;
    uint32_t x_is_busy;  /* checks: a call is under way */
    uint64_t growth[16]; /* struct ps_chunks */
};

/*
 * Makes *pool empty; takes no memory. size: bytes of an object; 0 counts as 1. align: power of two
 * up to PS_POOL_ALIGN_MAX; 0 is the largest power of two that divides size, at most 16, which is
 * enough for any C type of that size. options: NULL for the defaults; not retained. False and
 * EINVAL: bad align, a size too large, or options both ordered and unchecked; then *pool is not
 * usable. O(1).
 */
PS_API bool ps_pool_init(struct ps_pool *pool, size_t size, size_t align,
                         const struct ps_pool_options *options) PS_NOEXCEPT;

/* Gives all memory back, that of live objects too; their destructors are not known here. The pool
 * can then only be initialised again. O(chunks). */
PS_API void ps_pool_destroy(struct ps_pool *pool) PS_NOEXCEPT;

/* Moves the pool *from to *to; its objects do not move; *to was not initialised or is destroyed.
 * *from is then empty, with the same options. O(1). */
PS_API void ps_pool_move(struct ps_pool *to, struct ps_pool *from) PS_NOEXCEPT;

/* Forgets all objects. Retains the largest chunk, returns the others. O(chunks). */
PS_API void ps_pool_reset(struct ps_pool *pool) PS_NOEXCEPT;

/* The slow halves of the inline functions below. */
PS_API void *ps_pool_alloc_slow(struct ps_pool *pool);
PS_API void *ps_pool_try_alloc_slow(struct ps_pool *pool) PS_NOEXCEPT;
PS_API void *ps_pool_alloc_n_slow(struct ps_pool *pool, size_t count);
PS_API void ps_pool_free_slow(struct ps_pool *pool, void *object) PS_NOEXCEPT;
PS_API void ps_pool_free_n_slow(struct ps_pool *pool, void *array, size_t count) PS_NOEXCEPT;

/* The library's own: the newest free object, else one never used. False: there is neither. */
__attribute__((always_inline)) static inline bool ps_pool_take(struct ps_pool *pool,
                                                               void **object) {
    struct ps_pool_link *newest = pool->free;
    if (__builtin_expect(newest != NULL, 1)) {
        pool->free = newest->next;
        *object = newest;
        return true;
    }
    char *bump = pool->bump;
    if (__builtin_expect(bump != pool->end, 1)) {
        PS_KNOWN(bump != NULL);
        pool->bump = bump + pool->stride;
        *object = bump;
        return true;
    }
    return false;
}

/*
 * An object. NULL and ENOMEM: memory is exhausted, or max_items are live: exactly then in a pool
 * without arrays. O(1); the source is called once per chunk.
 */
PS_MALLOC static inline void *ps_pool_alloc(struct ps_pool *pool) {
    void *object;
    return ps_pool_take(pool, &object) ? object : ps_pool_alloc_slow(pool);
}

/* The same without a call of the source: NULL and ENOMEM instead. O(1). */
PS_MALLOC static inline void *ps_pool_try_alloc(struct ps_pool *pool) PS_NOEXCEPT {
    void *object;
    return ps_pool_take(pool, &object) ? object : ps_pool_try_alloc_slow(pool);
}

/* Frees an object of this pool, allocated by itself, not as an array. NULL does nothing. O(1). */
static inline void ps_pool_free(struct ps_pool *pool, void *object) PS_NOEXCEPT {
    /*
     * One comparison for the kind and for NULL: any object in a usual pool. In an ordered one an
     * object below the head, which preserves the list's order; an empty list is above everything,
     * and the head of a pool without a list is NULL, below which is nothing when push_below is 0.
     */
    struct ps_pool_link *head = pool->free;
    if (__builtin_expect((uintptr_t)object > pool->push_above, 1) ||
        (uintptr_t)object - 1 < (uintptr_t)head - pool->push_below) {
        struct ps_pool_link *link = (struct ps_pool_link *)object;
        link->next = head;
        head = link;
    } else {
        ps_pool_free_slow(pool, object);
        head = pool->free;
    }
    /* One store for both ways: the compiler can then hold the head in a register until the next
     * call, which saves a fourth of an alloc and a free. */
    pool->free = head;
}

/*
 * The same in a pool with is_unchecked. Neither the pool's kind nor object, which may not be NULL,
 * is tested: a call for another kind of pool corrupts it. O(1).
 */
static inline void ps_pool_free_unchecked(struct ps_pool *pool, void *object) PS_NOEXCEPT {
    struct ps_pool_link *link = (struct ps_pool_link *)object;
    link->next = pool->free;
    pool->free = link;
}

/*
 * `count` objects side by side; 0 counts as 1. NULL: ENOMEM as above (a pool with max_items may
 * have enough free objects, but not side by side), or EINVAL in a tiny pool when count > 1.
 * Usual pools: O(1); O(objects / 64 + free objects) when it makes neighbours one, see above.
 * Ordered pools: O(objects / 64) at worst.
 */
PS_MALLOC static inline void *ps_pool_alloc_n(struct ps_pool *pool, size_t count) {
    size_t bytes;
    if (__builtin_expect(!__builtin_mul_overflow(count, pool->stride, &bytes), 1) &&
        bytes - 1 < (size_t)(pool->end - pool->bump) && pool->has_links) {
        char *array = pool->bump;
        pool->bump = array + bytes;
        return array;
    }
    return ps_pool_alloc_n_slow(pool, count);
}

/* Frees objects of ps_pool_alloc_n, with the same count. NULL does nothing. O(1); when ordered
 * O(count / 64). */
static inline void ps_pool_free_n(struct ps_pool *pool, void *array, size_t count) PS_NOEXCEPT {
    if (array != NULL && (char *)array + count * pool->stride == pool->bump && count != 0 &&
        pool->has_links) {
        pool->bump = (char *)array;
        return;
    }
    ps_pool_free_n_slow(pool, array, count);
}

/* Objects into objects[0 .. count). Returns how many: fewer only when memory is exhausted.
 * O(count). */
PS_API size_t ps_pool_alloc_batch(struct ps_pool *pool, void **objects, size_t count);

/* Frees objects[0 .. count); NULLs among them do nothing. O(count). */
PS_API void ps_pool_free_batch(struct ps_pool *pool, void *const *objects,
                               size_t count) PS_NOEXCEPT;

/* Frees a list of objects that are linked by a pointer next_offset bytes from their beginning, the
 * last one's NULL. first: may be NULL. O(objects). */
PS_API void ps_pool_free_list(struct ps_pool *pool, void *first, size_t next_offset) PS_NOEXCEPT;

/*
 * Takes memory now, so that the next `count` single objects need no call of the source. False and
 * ENOMEM: memory is exhausted, or max_items forbids; nothing has changed. O(chunks + count).
 */
PS_API bool ps_pool_reserve(struct ps_pool *pool, size_t count);

/*
 * Returns chunks without a live object to the source, at any time, until at most keep_bytes of them
 * are left; 0: all. Returns their bytes, those of the pool's own tables among them. O(chunks) when
 * ordered, O(chunks + free objects) else: the usual pool counts each chunk's live objects only
 * here, so that alloc and free need not.
 */
PS_API size_t ps_pool_trim_to(struct ps_pool *pool, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_pool_trim_to(pool, 0)")
PS_API size_t ps_pool_trim(struct ps_pool *pool) PS_NOEXCEPT;

/*
 * Changes the limit of the options: max_items objects at most from now on; 0: no limit. False and
 * EINVAL, with the limit as it was: the pool has more objects than that in use or free for reuse;
 * ps_pool_trim_to reduces the latter. O(1).
 */
PS_API bool ps_pool_set_max_items(struct ps_pool *pool, size_t max_items) PS_NOEXCEPT;

/* Changes chunks.first_bytes and chunks.max_bytes of the options: the next chunk has next_bytes, at
 * most max_bytes; later ones double up to max_bytes, and begin with next_bytes again in a pool that
 * has given all back. 0 leaves one as it is. A chunk is longer where an object or array requires
 * it. ps_pool_stats tells both. O(1). */
PS_API void ps_pool_set_growth(struct ps_pool *pool, size_t next_bytes,
                               size_t max_bytes) PS_NOEXCEPT;

/* True when an address, any at all, lies in the memory of this pool's objects, live or free. O(1):
 * does not read the memory there. */
PS_API bool ps_pool_owns(struct ps_pool *pool, const void *address) PS_NOEXCEPT;

/*
 * Calls visit for each live object, in any order; of an array, for each object of it. visit may
 * read and write objects and may not use the pool. False and EINVAL: the pool is not ordered.
 * O(objects / 64 + live).
 */
PS_API bool ps_pool_each(struct ps_pool *pool, void (*visit)(void *object, void *context),
                         void *context);

/* Lists the pool in the registry of poolshim/registry.h, until it is destroyed; does nothing if it
 * is listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_pool_enlist(struct ps_pool *pool) PS_NOEXCEPT;

struct ps_pool_stats {
    const char *name;
    size_t size_bytes;   /* of an object, as requested */
    size_t stride_bytes; /* what one takes */
    size_t used_count;   /* live objects */
    size_t free_count;   /* that need no call of the source */
    size_t chunk_count;  /* taken from the source */
    size_t total_bytes;  /* of them */
    size_t next_bytes;   /* the next chunk */
    size_t max_bytes;    /* the longest chunk, except for longer arrays */
    size_t max_items;    /* 0: no limit */
};
/* O(chunks) when ordered, O(chunks + free objects) else. */
PS_API void ps_pool_stats(struct ps_pool *pool, struct ps_pool_stats *stats) PS_NOEXCEPT;

/*
 * A pool as the source of other pools, poolshim/source.h: a chunk is an array of its objects, so
 * that short-lived pools reuse the same chunks and none returns to the system. Choose first_bytes
 * and max_bytes of the other pools as the size of an object, or a multiple. Chunks have at most the
 * alignment of the pool: EINVAL above; most families need 64, tiny pools 4096. ENOMEM as
 * ps_pool_alloc_n; a tiny pool is no source. pool: outlives the source, and is not moved. One
 * thread at a time for all of them. Cost: as ps_pool_alloc_n.
 */
struct ps_pool_source {
    struct ps_source source;
    struct ps_pool *pool;
};
PS_API void ps_pool_source_init(struct ps_pool_source *source, struct ps_pool *pool) PS_NOEXCEPT;

/* The length of a chunk for `count` objects, for options->chunks.first_bytes. Arguments as for
 * ps_pool_init. 0: it overflows, or they are not valid. */
PS_API size_t ps_pool_chunk_bytes(size_t size, size_t align, size_t count,
                                  const struct ps_pool_options *options) PS_NOEXCEPT;

PS_END_DECLS

#endif
