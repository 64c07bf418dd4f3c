/* SPDX-License-Identifier: MIT */
/*
 * Statistics of intrusive pools, and a walk that checks them. See intrusive.h.
 */
#include "pools/engine/base/atomic.h"
#include "pools/intrusive/intrusive.h"

#include <string.h>

static size_t live_of(const struct intrusive_pool *pool) {
    if (pool->is_malloc) {
        return pool->face.hold_count - 1 + ps_load_relaxed(&pool->x_left); /* relaxed: a count */
    }
    if (pool->options.is_shared == 0) {
        return pool->face.hold_count - 1;
    }
    /* acquire: pairs with return_shared; others only push, so present entries remain. */
    return pool->touched - ps_intrusive_length(pool->kept) - ps_intrusive_length(pool->face.free) -
           ps_intrusive_length(ps_load_acquire(&pool->x_returned));
}

void ps_intrusive_stats(const struct ps_intrusive *pool, struct ps_intrusive_stats *stats) {
    memset(stats, 0, sizeof *stats);
    if (pool->state == &ps_intrusive_none) {
        return;
    }
    const struct intrusive_pool *state = intrusive_pool_of(pool->state);
    stats->live_items = live_of(state);
    stats->chunk_count = state->chunks.chunk_count;
    stats->reserved_bytes = state->chunks.total_bytes;
    stats->touched_items = state->touched;
    if (!state->is_malloc) {
        stats->capacity_items = state->capacity;
        stats->free_items = state->capacity - stats->live_items;
    }
}

bool ps_intrusive_is_exhausted(const struct ps_intrusive *pool) {
    size_t max = pool->options.max_items;
    if (max == 0 || pool->state == &ps_intrusive_none) {
        return false;
    }
    const struct intrusive_pool *state = intrusive_pool_of(pool->state);
    if (state->is_malloc) {
        return live_of(state) >= max;
    }
    return state->touched == max && pool->state->free == NULL && state->kept == NULL &&
           ps_load_relaxed(&state->x_returned) == NULL; /* relaxed: the result is of a moment */
}

/* True when the item is that of an object of the pool that was allocated before. */
static bool is_item(const struct intrusive_pool *pool, const struct ps_intrusive_item *item) {
    const char *object = (const char *)item - pool->options.item_offset;
    const struct intrusive_chunk *chunk = pool->first_chunk;
    for (; chunk != NULL; chunk = chunk->next) {
        const char *limit = chunk->first + chunk->count * pool->stride_bytes;
        if (object >= chunk->first && object < limit) {
            size_t offset = (size_t)(object - chunk->first);
            bool is_virgin = chunk == pool->chunk_in_use && object >= pool->virgin;
            return offset % pool->stride_bytes == 0 && !is_virgin;
        }
    }
    return false;
}

/* Length of a list of free items, or SIZE_MAX when one of them cannot be one. */
static size_t checked_length(const struct intrusive_pool *pool,
                             const struct ps_intrusive_item *item) {
    size_t length = 0;
    for (; item != NULL; item = item->link.next, length++) {
        /* relaxed: the count of a free item is not written. */
        if (length > pool->touched || !is_item(pool, item) || ps_load_relaxed(&item->count) != 0) {
            return SIZE_MAX;
        }
    }
    return length;
}

static bool is_capacity_right(const struct intrusive_pool *pool) {
    size_t capacity = 0;
    size_t touched = 0;
    bool is_before = true;
    for (const struct intrusive_chunk *chunk = pool->first_chunk; chunk != NULL;
         chunk = chunk->next) {
        capacity += chunk->count;
        touched += chunk == pool->chunk_in_use ? chunk->count - pool->virgin_count
                   : is_before                 ? chunk->count
                                               : 0;
        is_before = is_before && chunk != pool->chunk_in_use;
    }
    return capacity == pool->capacity && touched == pool->touched;
}

bool ps_intrusive_check(const struct ps_intrusive *pool) {
    if (pool->state == &ps_intrusive_none) {
        return true;
    }
    const struct intrusive_pool *state = intrusive_pool_of(pool->state);
    if (!is_capacity_right(state)) {
        return false;
    }
    if (state->is_malloc) {
        return true;
    }
    size_t free_count = checked_length(state, pool->state->free);
    size_t kept_count = checked_length(state, state->kept);
    /* acquire: as in live_of. */
    size_t returned_count = checked_length(state, ps_load_acquire(&state->x_returned));
    if (free_count == SIZE_MAX || kept_count == SIZE_MAX || returned_count == SIZE_MAX) {
        return false;
    }
    size_t all_free = free_count + kept_count + returned_count;
    return state->options.is_shared != 0 ? all_free <= state->touched
                                         : all_free + state->face.hold_count - 1 == state->touched;
}
