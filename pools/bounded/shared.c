/* SPDX-License-Identifier: MIT */
/*
 * The free objects that all threads share: two stacks, and those never used. See bounded.h; the
 * orders are checked by models/bounded.c. Called by cache.c. No locks: every loop ends when its
 * swap succeeds, and a swap fails only when another thread's has succeeded.
 */
#include "pools/bounded/bounded.h"

/* The first object of a stack, whose links are in `x_links`. */
static uint32_t take(uint64_t *x_head, const uint32_t *x_links) {
    for (;;) {
        /* acquire: pairs with the release in put; makes the objects and their links visible. Takes
         * in between are read-modify-writes, so they do not break the pair. */
        uint64_t head = ps_load_acquire(x_head);
        uint32_t first = (uint32_t)head;
        if (first == PS_BOUNDED_NONE) {
            return PS_BOUNDED_NONE;
        }
        /* relaxed: where it is not the link of this head, the swap fails. */
        uint64_t next = ps_load_relaxed(&x_links[first]);
        uint64_t takes = (head >> 32) + 1;
        /* relaxed: a head never comes again, since a take counts, so this is the one that was
         * loaded. */
        if (ps_cas_weak_relaxed(x_head, &head, takes << 32 | next)) {
            return first;
        }
    }
}

static void put(uint64_t *x_head, uint32_t *x_links, uint32_t first) {
    uint64_t head = ps_load_relaxed(x_head); /* relaxed: the swap decides */
    uint64_t next = 0;
    do {
        ps_store_relaxed(&x_links[first], (uint32_t)head); /* relaxed: published by the swap */
        next = (head & ~(uint64_t)UINT32_MAX) | first;
        /* release: pairs with the acquire in take; hands on the objects and their links. */
    } while (!ps_cas_weak_release(x_head, &head, next));
}

uint32_t ps_bounded_take_batch(struct bounded_pool *pool) {
    return take(&pool->x_batches, pool->x_down);
}

void ps_bounded_put_batch(struct bounded_pool *pool, uint32_t first) {
    put(&pool->x_batches, pool->x_down, first);
}

uint32_t ps_bounded_take_single(struct bounded_pool *pool) {
    return take(&pool->x_singles, pool->face.x_next);
}

void ps_bounded_put_single(struct bounded_pool *pool, uint32_t index) {
    put(&pool->x_singles, pool->face.x_next, index);
}

void ps_bounded_put_singles(struct bounded_pool *pool, uint32_t first) {
    while (first != PS_BOUNDED_NONE) {
        uint32_t next = bounded_next(pool, first);
        ps_bounded_put_single(pool, first);
        first = next;
    }
}

uint64_t ps_bounded_take_untouched(struct bounded_pool *pool, uint32_t most) {
    uint32_t count = pool->face.count;
    /* relaxed, both: these objects were never used. The load prevents the sum from growing with
     * each failed call. */
    if (ps_load_relaxed(&pool->x_touched) >= count) {
        return BOUNDED_EMPTY;
    }
    uint64_t first = ps_add_relaxed(&pool->x_touched, (uint64_t)most);
    if (first >= count) {
        return BOUNDED_EMPTY;
    }
    uint64_t limit = ps_min(first + most, count);
    for (uint64_t index = first; index < limit; index++) {
        uint64_t next = index + 1 < limit ? index + 1 : PS_BOUNDED_NONE;
        bounded_set_next(pool, (uint32_t)index, (uint32_t)next);
    }
    return bounded_list(limit - first, (uint32_t)first);
}
