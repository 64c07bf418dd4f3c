/* SPDX-License-Identifier: MIT */
/*
 * The state of an intrusive pool: lies in the pool's first chunk and lives until the pool is
 * destroyed and all its items are returned. Included by pools/intrusive/. No locks: one thread at a
 * time, except the fields marked x_, by which other threads return items of shared pools.
 *
 *   capacity == touched + the rest of the chunk in use + all of the chunks after it
 *   live + free + x_returned == touched
 */
#ifndef PS_INTRUSIVE_INTRUSIVE_H
#define PS_INTRUSIVE_INTRUSIVE_H

#include "pools/common/chunk.h"
#include "pools/common/registry.h"
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/intrusive.h>

struct intrusive_chunk {
    struct intrusive_chunk *next; /* in the order in which they are used */
    size_t bytes;
    char *first;  /* object */
    size_t count; /* of objects */
};

struct intrusive_pool {
    struct ps_intrusive_state face; /* first member */
    struct ps_intrusive_item *kept; /* free items of checked pools, instead of face.free */
    char *virgin;                   /* next object of chunk_in_use that was never allocated */
    size_t virgin_count;            /* such objects in chunk_in_use */
    struct intrusive_chunk *first_chunk;
    struct intrusive_chunk *chunk_in_use;
    struct intrusive_chunk *last_chunk;
    size_t capacity;
    size_t touched;
    size_t stride_bytes;
    bool is_malloc;
    bool is_checked;
    struct ps_chunks chunks;
    struct ps_intrusive_options options; /* align is set, and bytes is a multiple of it */

    PS_ALIGNED(PS_CACHE_LINE)
    struct ps_intrusive_item *x_returned; /* by any thread; INTRUSIVE_CLOSED: no more of it */
    size_t x_left; /* once closed: items that live. Before the pool's own number is added, the
                      returns alone, so below zero */
};

/* x_returned of pools that are orphaned or use malloc: returns count down x_left. */
#define INTRUSIVE_CLOSED ((struct ps_intrusive_item *)1)

/* Adds, wraps, and returns the sum. acq_rel: the thread that ends a state sees all that others did.
 */
static inline size_t intrusive_add_left(struct intrusive_pool *pool, size_t count) {
    size_t left = ps_load_relaxed(&pool->x_left); /* relaxed: the swap decides */
    while (!ps_cas_weak_acq_rel(&pool->x_left, &left, left + count)) { /* ends: as any counter's */
    }
    return left + count;
}

/* The state of pools that have no memory yet: nothing is free, so alloc takes the slow path. */
extern PS_HIDDEN struct ps_intrusive_state ps_intrusive_none;

static inline struct intrusive_pool *intrusive_pool_of(const struct ps_intrusive_state *state) {
    return (struct intrusive_pool *)state;
}

static inline void *intrusive_object(const struct intrusive_pool *pool,
                                     struct ps_intrusive_item *item) {
    return (char *)item - pool->options.item_offset;
}

/* A state with memory for the reserve, or NULL and errno. */
struct intrusive_pool *ps_intrusive_state_create(const struct ps_intrusive_options *options);

/* Room for more; `least` > 0 items at once, or, when that is 0, the usual. False: ENOMEM. */
bool ps_intrusive_grow(struct intrusive_pool *pool, size_t least);

/* Calls visit for the item of each object that was ever allocated. */
void ps_intrusive_each(struct intrusive_pool *pool, ps_intrusive_recycle *visit, void *context);

/* Marks for AddressSanitizer; nothing in other builds. */
void ps_intrusive_poison(const struct intrusive_pool *pool, struct ps_intrusive_item *item);
void ps_intrusive_unpoison(const struct intrusive_pool *pool, struct ps_intrusive_item *item);

/* Walks a list of free items. */
size_t ps_intrusive_length(const struct ps_intrusive_item *first);

#endif
