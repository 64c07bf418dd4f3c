/* SPDX-License-Identifier: MIT */
/*
 * PS_DEBUG=check: every pool is of the ordered kind, without a list, so that the state of each
 * object is in the bits; all calls come here. Free objects are poisoned. Called by pool.c; calls
 * map.c. Each object is announced to memcheck. No locks.
 */
#include "pools/engine/base/atomic.h"
#include "pools/pool/bitmap.h"

/* Around every use: two threads in one pool at once are found. */
static void enter(struct ps_pool *pool) {
    /* acquire: pairs with the release below; in a correct program no other thread is here. */
    if (ps_exchange_acquire(&pool->x_is_busy, 1u) != 0) {
        ps_debug_misuse("two threads at once use", pool, ps_pool_growth(pool)->name);
    }
}

static void leave(struct ps_pool *pool) {
    ps_store_release(&pool->x_is_busy, 0u); /* release: pairs with the acquire above */
}

static bool is_inner(const struct ps_pool_map *map, size_t index) {
    return index < map->chunk.carved && (map->inner[index >> 6] & ps_pool_bit(index)) != 0;
}

static void *alloc_n(struct ps_pool *pool, size_t count) {
    enter(pool);
    char *objects =
        (char *)(count == 1 ? ps_pool_map_alloc(pool) : ps_pool_map_actions.alloc_n(pool, count));
    if (objects == NULL) {
        leave(pool);
        return NULL;
    }
    struct ps_pool_chunk *chunk = ps_pool_find(pool, objects);
    struct ps_pool_map *map = (struct ps_pool_map *)(void *)chunk;
    size_t first = ps_pool_index(pool, (size_t)(objects - chunk->nodes));
    map->inner[first >> 6] &= ~ps_pool_bit(first);
    for (size_t index = first + 1; index < first + count; index++) {
        map->inner[index >> 6] |= ps_pool_bit(index);
    }
    size_t bytes = (count - 1) * pool->stride + pool->size_bytes;
    ps_unpoison(objects, bytes);
    ps_mempool_alloc(pool, objects, bytes);
    leave(pool);
    return objects;
}

static void *alloc(struct ps_pool *pool) { return alloc_n(pool, 1); }

static const char *fault_of(struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                            const char *object, size_t count) {
    const struct ps_pool_map *map = (const struct ps_pool_map *)(const void *)chunk;
    if (chunk == NULL || object < chunk->nodes) {
        return "free of a foreign pointer";
    }
    size_t offset = (size_t)(object - chunk->nodes);
    size_t index = ps_pool_index(pool, offset);
    if (index >= chunk->carved) {
        return "free of a foreign pointer";
    }
    if (offset != index * pool->stride) {
        return "free of a pointer into an object";
    }
    if ((map->bits[index >> 6] & ps_pool_bit(index)) != 0) {
        return "double free of";
    }
    if (is_inner(map, index)) {
        return "free of a pointer into an array";
    }
    size_t length = 1;
    while (is_inner(map, index + length)) { /* ends: the objects after it are not inner */
        length++;
    }
    return length != count ? "free with another length than it was allocated with" : NULL;
}

static void free_n(struct ps_pool *pool, void *object, size_t count) {
    enter(pool);
    struct ps_pool_chunk *chunk = ps_pool_find(pool, object);
    const char *fault = fault_of(pool, chunk, (const char *)object, count);
    if (fault != NULL) {
        ps_debug_misuse(fault, object, ps_pool_growth(pool)->name);
    }
    struct ps_pool_map *map = (struct ps_pool_map *)(void *)chunk;
    size_t first = ps_pool_index(pool, (size_t)((char *)object - chunk->nodes));
    for (size_t index = first; index < first + count; index++) {
        map->inner[index >> 6] &= ~ps_pool_bit(index);
    }
    ps_mempool_free(pool, object);
    ps_poison(object, count * pool->stride);
    ps_pool_map_actions.free_n(pool, object, count);
    leave(pool);
}

const struct ps_pool_actions ps_pool_checked_actions = {
    .bytes_for = ps_pool_map_bytes_for,
    .build = ps_pool_map_build,
    .alloc = alloc,
    .alloc_n = alloc_n,
    .free_n = free_n,
    .count = ps_pool_map_flush,
    .sum = ps_pool_map_sum,
    .forget_drained = ps_pool_map_forget_drained,
};
