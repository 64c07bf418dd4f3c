/* SPDX-License-Identifier: MIT */
/*
 * Pools of objects of one size: the functions that are not inline in poolshim/pool.h, except life
 * and statistics (life.c). Decides which kind serves a call, and takes from the source when the
 * kind has nothing left. No locks.
 */
#include "pools/pool/pool.h"
#include "pools/pool/runs.h"

#include <errno.h>
#include <poolshim/pages.h>

const struct ps_pool_actions *ps_pool_actions_of(const struct ps_pool *pool) {
    static const struct ps_pool_actions *const actions[] = {
        [PS_POOL_LIST] = &ps_pool_list_actions,
        [PS_POOL_MAP] = &ps_pool_map_actions,
        [PS_POOL_TINY] = &ps_pool_tiny_actions,
        [PS_POOL_CHECKED] = &ps_pool_checked_actions,
    };
    return actions[pool->kind];
}

static size_t chunk_align(const struct ps_pool *pool) {
    return pool->kind == PS_POOL_TINY ? PS_PAGE_BYTES : ps_max(pool->align, PS_POOL_CHUNK_ALIGN);
}

bool ps_pool_grow(struct ps_pool *pool, size_t count) {
    const struct ps_pool_actions *actions = ps_pool_actions_of(pool);
    struct ps_chunks *growth = ps_pool_growth(pool);
    size_t bytes = actions->bytes_for(pool, count);
    if (bytes == 0 || count > pool->uncarved_count) {
        errno = ENOMEM;
        return false;
    }
    /* A pool with max_items does not take more than it can ever use. */
    size_t enough = actions->bytes_for(pool, pool->uncarved_count);
    void *memory;
    if (enough != 0 && enough < growth->next_bytes) {
        bytes = enough;
        memory = ps_chunk_take_exact(growth, bytes, chunk_align(pool));
    } else {
        memory = ps_chunk_take(growth, bytes, chunk_align(pool), &bytes);
    }
    if (memory == NULL) {
        return false;
    }
    actions->build(pool, memory, bytes);
    return true;
}

/* One object, or an array, from what there is. */
static void *kept(struct ps_pool *pool, size_t count) {
    const struct ps_pool_actions *actions = ps_pool_actions_of(pool);
    return count == 1 ? actions->alloc(pool) : actions->alloc_n(pool, count);
}

void *ps_pool_kept_or_grown(struct ps_pool *pool, size_t count) {
    if (pool->kind == PS_POOL_HEAP) {
        void *object = ps_pool_heap_alloc(pool, count);
        if (object == NULL) {
            errno = ENOMEM;
        }
        return object;
    }
    void *object;
    while ((object = kept(pool, count)) == NULL) { /* ends: a chunk that was added has them */
        if (!ps_pool_grow(pool, count) &&
            (count == 1 || pool->kind != PS_POOL_LIST || !ps_pool_runs_merge(pool, true))) {
            return NULL;
        }
    }
    return object;
}

void *ps_pool_alloc_slow(struct ps_pool *pool) {
    if (pool->kind == PS_POOL_TINY) {
        return ps_pool_tiny_alloc(pool);
    }
    void *object = pool->kind == PS_POOL_MAP ? ps_pool_map_alloc(pool) : NULL;
    return PS_LIKELY(object != NULL) ? object : ps_pool_kept_or_grown(pool, 1);
}

void *ps_pool_try_alloc_slow(struct ps_pool *pool) {
    void *object = pool->kind == PS_POOL_HEAP ? ps_pool_heap_alloc(pool, 1) : kept(pool, 1);
    if (object == NULL) {
        errno = ENOMEM;
    }
    return object;
}

static PS_NOINLINE void *alloc_array(struct ps_pool *pool, size_t count) {
    if (!pool->has_arrays) {
        errno = EINVAL;
        return NULL;
    }
    return ps_pool_kept_or_grown(pool, count);
}

/* Only usual pools have a record of free arrays: where there is one, it says the kind. */
void *ps_pool_alloc_n_slow(struct ps_pool *pool, size_t count) {
    if (count <= 1) {
        return ps_pool_alloc(pool);
    }
    void *array = ps_pool_runs_take_exact(pool, count);
    return PS_LIKELY(array != NULL) ? array : alloc_array(pool, count);
}

/* Under PS_DEBUG. */
PS_COLD static void free_with_care(struct ps_pool *pool, void *object) {
    if (pool->kind == PS_POOL_HEAP) {
        ps_pool_heap_free(pool, object, 1);
    } else {
        ps_pool_actions_of(pool)->free_n(pool, object, 1);
    }
}

void ps_pool_free_slow(struct ps_pool *pool, void *object) {
    if (object == NULL) {
        return;
    }
    if (pool->kind == PS_POOL_TINY) {
        ps_pool_tiny_free(pool, object);
    } else if (pool->kind == PS_POOL_MAP) {
        ps_pool_map_free(pool, object);
    } else {
        free_with_care(pool, object);
    }
}

static PS_NOINLINE void free_array(struct ps_pool *pool, void *array, size_t count) {
    if (PS_UNLIKELY(pool->kind == PS_POOL_HEAP)) {
        ps_pool_heap_free(pool, array, count);
    } else {
        ps_pool_actions_of(pool)->free_n(pool, array, count);
    }
}

void ps_pool_free_n_slow(struct ps_pool *pool, void *array, size_t count) {
    if (array == NULL) {
        return;
    }
    if (count <= 1) {
        ps_pool_free(pool, array);
    } else if (!ps_pool_runs_add_exact(pool, array, count)) {
        free_array(pool, array, count);
    }
}

size_t ps_pool_alloc_batch(struct ps_pool *pool, void **objects, size_t count) {
    for (size_t i = 0; i < count; i++) {
        objects[i] = ps_pool_alloc(pool);
        if (objects[i] == NULL) {
            return i;
        }
    }
    return count;
}

void ps_pool_free_batch(struct ps_pool *pool, void *const *objects, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_pool_free(pool, objects[i]);
    }
}

void ps_pool_free_list(struct ps_pool *pool, void *first, size_t next_offset) {
    char *object = (char *)first;
    while (object != NULL) { /* the caller's list ends */
        char *next = (char *)((struct ps_pool_link *)(void *)(object + next_offset))->next;
        ps_pool_free(pool, object);
        object = next;
    }
}
