/* SPDX-License-Identifier: MIT */
/*
 * intrusive.h - a pool of reference-counted objects that return to their pool by themselves.
 *
 * Each object carries a `struct ps_intrusive_item`, 16 bytes: the count and, since the item knows
 * its pool, everything that is needed to return it. A handle is a plain pointer; there is no
 * control block, and only the growth of the pool takes memory. Use it for large or
 * expensive objects of one type that are shared: connections, buffers, messages. C++:
 * intrusive.hpp.
 *
 *     struct message { struct ps_intrusive_item item; char text[1000]; };
 *
 *     struct ps_intrusive pool;
 *     struct ps_intrusive_options options = {.bytes = sizeof(struct message), .max_items = 64};
 *     if (!ps_intrusive_init(&pool, &options)) { ... }
 *     struct message *m = (struct message *)ps_intrusive_alloc(&pool);   // count is 1
 *     ps_intrusive_take(&m->item);                                       // 2
 *     ps_intrusive_drop(&m->item);                                       // 1
 *     ps_intrusive_destroy(&pool);                                       // m lives on
 *     ps_intrusive_drop(&m->item);                                       // pool's memory goes now
 *
 * Objects are recycled as they are: the contents persist from the last drop to the next allocation.
 * item.is_built is 0 the first time only: build the object, then set it to 1.
 *
 * The pool may be destroyed or cleared while items live; its memory is freed with the last of them.
 *
 * Threads: one at a time per pool, for the items too. With options.is_shared, take and drop are
 * ps_intrusive_take_shared and ps_intrusive_drop_shared, and any thread may call these, at any
 * time, also after the pool has been destroyed; the other functions are for one thread at a time
 * as before. The recycle function then runs in the thread that dropped the last reference.
 *
 * Cost: take, drop and alloc are a few inlined instructions; shared ones have one atomic
 * read-modify-write each, and a last drop that is the only reference has none for the count.
 * Memory is touched when it is first allocated, never before.
 *
 * PS_DEBUG=malloc: each item is a malloc block, built anew each time. PS_DEBUG=check: free items
 * are poisoned under AddressSanitizer. A drop too many of a free item is noticed in every build.
 *
 * After boost_intrusive_pool by f18m (recycled items, pools that their items outlive, bounded and
 * limited pools); the list of items returned by other threads is Treiber's stack, emptied whole.
 */
#ifndef POOLSHIM_INTRUSIVE_H
#define POOLSHIM_INTRUSIVE_H

#include <poolshim/source.h>

PS_BEGIN_DECLS

struct ps_intrusive_state;

/* In each object; 8-aligned. Only is_built is the program's to write. */
struct ps_intrusive_item {
    union {
        struct ps_intrusive_state *owner; /* while allocated; NULL: belongs to no pool */
        struct ps_intrusive_item *next;   /* while free */
    } link;
    uint32_t count;    /* references; 0: free */
    uint32_t is_built; /* 0 in memory that was never allocated before */
};

/* The part of a pool that inline functions use; its memory, counts and rules follow it. Internal to
 * the library. */
struct ps_intrusive_state {
    struct ps_intrusive_item *free; /* newest first; always NULL in pools that are checked */
    size_t hold_count; /* items allocated, and 1 for the pool; if shared, those ever allocated */
    void (*last)(struct ps_intrusive_state *state, struct ps_intrusive_item *item);
    uint32_t is_slow; /* shared, checked or malloc: put goes through the library */
};

/* Called before the last reference is dropped, so the object may be used as before. If the function
 * takes another reference, the item remains alive, and the function is called again next time. */
typedef void ps_intrusive_recycle(struct ps_intrusive_item *item, void *context);

/* All zero but `bytes` is an unlimited pool of 16-aligned objects that begin with their item. */
struct ps_intrusive_options {
    struct ps_chunk_options chunks; /* first chunk 4 KiB, doubling up to 8 MiB */
    size_t bytes;                   /* of an object with its item: 16 to 2^40 */
    size_t align;                   /* of objects: a power of two, 8 to 4096; 0: PS_ALIGN_DEFAULT */
    size_t item_offset;             /* of the item in the object: a multiple of 8 */
    size_t reserve_items; /* memory for so many is taken at once: none is taken later while no more
                             than that live */
    size_t step_items;    /* grow by so many, or an eighth of the pool if that is more, not by
                             doubling; no chunk is below 64 KiB for it */
    size_t max_items;     /* no more than that; 0: no limit. Equal to reserve_items: bounded */
    uint32_t is_shared;   /* 1: references are dropped by any thread */
    ps_intrusive_recycle *recycle; /* at the end of each use; NULL: none */
    ps_intrusive_recycle *end;     /* for each built object when its memory goes; NULL: none */
    void *context;                 /* for both */
    /* For wrappers, instead of recycle: all that follows when the last reference is dropped; ends
     * in ps_intrusive_put. NULL: that alone. */
    void (*last)(struct ps_intrusive_state *state, struct ps_intrusive_item *item);
};

/* The fields are the library's own. */
struct ps_intrusive {
    struct ps_intrusive_state *state;
    struct ps_intrusive_options options;
};

/*
 * Makes a pool. Copies the options. Takes no memory unless reserve_items is set. False: EINVAL for
 * options out of range, ENOMEM when the reserve is not to be had; there is nothing to destroy then.
 */
PS_API bool ps_intrusive_init(struct ps_intrusive *pool,
                              const struct ps_intrusive_options *options);

/*
 * Ends the pool: memory returns to the source at once when no item lives, otherwise when the last
 * one is returned; `end` is called for each built object then. The source, and for `recycle`,
 * `end` the context, must live until then. O(chunks), with `end` O(items), shared O(free items).
 * Twice is as once.
 */
PS_API void ps_intrusive_destroy(struct ps_intrusive *pool) PS_NOEXCEPT;

/* Moves the pool *from to *to; *from is then as new, with the same options. */
PS_API void ps_intrusive_move(struct ps_intrusive *to, struct ps_intrusive *from) PS_NOEXCEPT;

/* As destroy, and the pool is as new: reserve_items are taken by the next alloc, objects are built
 * anew. Items that live are not affected. */
PS_API void ps_intrusive_reset(struct ps_intrusive *pool) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_intrusive_reset")
PS_API void ps_intrusive_clear(struct ps_intrusive *pool) PS_NOEXCEPT;

/* Makes room, so that `items` may live at a time without another chunk; max_items is not exceeded.
 * False: ENOMEM, nothing has changed. */
PS_API bool ps_intrusive_reserve(struct ps_intrusive *pool, size_t items);

/* Another recycle function, with its context (also for `end`), for all items of the pool, also
 * those that live; not for items from before the last clear. */
PS_API void ps_intrusive_set_recycle(struct ps_intrusive *pool, ps_intrusive_recycle *recycle,
                                     void *context) PS_NOEXCEPT;

/* The slow sides of the inlined functions. */
PS_API struct ps_intrusive_item *ps_intrusive_alloc_slow(struct ps_intrusive *pool);
PS_API void ps_intrusive_put_slow(struct ps_intrusive_state *state,
                                  struct ps_intrusive_item *item) PS_NOEXCEPT;
PS_API void ps_intrusive_drop_odd(struct ps_intrusive_item *item) PS_NOEXCEPT;
PS_API void ps_intrusive_end(struct ps_intrusive_state *state) PS_NOEXCEPT;

/*
 * An object, by its item, with one reference: free ones first, newest first. O(1), but when the
 * pool grows. NULL and ENOMEM: max_items live (ps_intrusive_is_exhausted), or no memory.
 */
static inline struct ps_intrusive_item *ps_intrusive_alloc(struct ps_intrusive *pool) {
    struct ps_intrusive_state *state = pool->state;
    struct ps_intrusive_item *item = state->free;
    if (__builtin_expect(item == NULL, 0)) {
        return ps_intrusive_alloc_slow(pool);
    }
    struct ps_intrusive_item *next = item->link.next;
    __builtin_prefetch(next, 1); /* objects are large: the next one is rarely in the cache */
    state->free = next;
    state->hold_count++;
    item->link.owner = state;
    item->count = 1;
    return item;
}

/* For `last` of wrappers: the item is free, whatever its count. */
static inline void ps_intrusive_put(struct ps_intrusive_state *state,
                                    struct ps_intrusive_item *item) {
    if (__builtin_expect(state->is_slow != 0, 0)) {
        ps_intrusive_put_slow(state, item);
        return;
    }
    item->count = 0;
    item->link.next = state->free;
    state->free = item;
    if (__builtin_expect(--state->hold_count == 0, 0)) {
        ps_intrusive_end(state);
    }
}

/* Wrappers: the last reference, which the caller has, goes. */
static inline void ps_intrusive_drop_last(struct ps_intrusive_item *item) {
    struct ps_intrusive_state *state = item->link.owner;
    if (__builtin_expect(state == NULL, 0)) {
        item->count = 0;
    } else if (state->last != NULL) {
        state->last(state, item);
    } else {
        ps_intrusive_put(state, item);
    }
}

/* One reference more. At most 2^32 - 1. */
static inline void ps_intrusive_take(struct ps_intrusive_item *item) { item->count++; }

/* Drops a reference; with the last one the item is recycled. Preserves errno. An item of no pool
 * (all zero) only counts. */
static inline void ps_intrusive_drop(struct ps_intrusive_item *item) {
    uint32_t count = item->count;
    if (count > 1) {
        item->count = count - 1;
    } else if (__builtin_expect(count == 1, 1)) {
        ps_intrusive_drop_last(item);
    } else {
        ps_intrusive_drop_odd(item);
    }
}

/* The same for items of shared pools: any thread that has a reference. */
static inline void ps_intrusive_take_shared(struct ps_intrusive_item *item) {
    /* relaxed: a thread that takes a reference has one, or got one by other means. */
    __atomic_fetch_add(&item->count, 1, __ATOMIC_RELAXED);
}

static inline void ps_intrusive_drop_shared(struct ps_intrusive_item *item) {
    /* acquire: pairs with the release below by earlier holders of references; makes their
     * changes of the object visible. No other thread can take one: this is the only reference. */
    uint32_t count = __atomic_load_n(&item->count, __ATOMIC_ACQUIRE);
    if (count > 1) {
        /* acq_rel: as above, and releases this thread's writes to the object. */
        count = __atomic_fetch_sub(&item->count, 1, __ATOMIC_ACQ_REL);
        if (count > 1) {
            return;
        }
        /* relaxed: no other thread can see it. Recycle functions expect a reference. */
        __atomic_store_n(&item->count, 1, __ATOMIC_RELAXED);
    }
    if (__builtin_expect(count == 1, 1)) {
        ps_intrusive_drop_last(item);
    } else {
        ps_intrusive_drop_odd(item);
    }
}

/* For objects whose building failed, and for wrappers: drops a reference without recycle. */
PS_API void ps_intrusive_undo(struct ps_intrusive_state *state,
                              struct ps_intrusive_item *item) PS_NOEXCEPT;

struct ps_intrusive_stats {
    size_t capacity_items; /* fit in the chunks, or 0 with PS_DEBUG=malloc */
    size_t live_items;     /* allocated */
    size_t free_items;     /* capacity - live, or 0 with PS_DEBUG=malloc */
    size_t touched_items;  /* were allocated at least once; the rest was never touched */
    size_t chunk_count;
    size_t reserved_bytes;
};

/* O(1); shared pools: O(free items). Items from before a clear are not counted. */
PS_API void ps_intrusive_stats(const struct ps_intrusive *pool,
                               struct ps_intrusive_stats *stats) PS_NOEXCEPT;

/* True when max_items live. O(1). */
PS_API bool ps_intrusive_is_exhausted(const struct ps_intrusive *pool) PS_NOEXCEPT;

/* Walks the pool: each free item is one of a chunk's and not referenced, and free and live items
 * make up the capacity. Returns whether that is true. O(items * chunks). */
PS_API bool ps_intrusive_check(const struct ps_intrusive *pool) PS_NOEXCEPT;

PS_END_DECLS

#endif
