/* SPDX-License-Identifier: MIT */
/*
 * The usual kind: free objects contain the link to the next free one, newest first, and free arrays
 * have a list of their own (runs.c); chunks record only how much of them was ever used. Called
 * through its actions by pool.c. No locks.
 */
#include "pools/pool/pool.h"

static size_t nodes_offset(const struct ps_pool *pool) {
    return ps_round_up(sizeof(struct ps_pool_chunk), pool->align);
}

static size_t list_bytes_for(const struct ps_pool *pool, size_t count) {
    size_t bytes;
    return !__builtin_mul_overflow(count, pool->stride, &bytes) &&
                   !__builtin_add_overflow(bytes, nodes_offset(pool), &bytes)
               ? bytes
               : 0;
}

static void list_build(struct ps_pool *pool, void *memory, size_t bytes) {
    struct ps_pool_chunk *chunk = (struct ps_pool_chunk *)memory;
    *chunk = (struct ps_pool_chunk){
        .nodes = (char *)memory + nodes_offset(pool),
        .capacity = ps_pool_index(pool, bytes - nodes_offset(pool)),
    };
    ps_pool_enter_chunk(pool, chunk, bytes);
    ps_pool_room_add(pool, chunk);
    ps_pool_runs_note_growth(pool, chunk->capacity);
}

static void *carve(struct ps_pool *pool, size_t count) {
    char *objects = pool->bump;
    pool->bump = objects + count * pool->stride;
    return objects;
}

static void *list_alloc(struct ps_pool *pool) {
    void *object = ps_pool_runs_take_one(pool);
    if (object != NULL) {
        return object;
    }
    ps_pool_settle(pool);
    struct ps_pool_chunk *chunk = pool->room_first;
    return chunk != NULL && ps_pool_expose(pool, chunk) ? carve(pool, 1) : NULL;
}

static void *array_from_room(struct ps_pool *pool, size_t count) {
    ps_pool_settle(pool);
    for (struct ps_pool_chunk *chunk = pool->room_first; chunk != NULL; chunk = chunk->room_next) {
        if (chunk->capacity - chunk->carved >= count && pool->uncarved_count >= count) {
            ps_pool_expose(pool, chunk);
            return carve(pool, count);
        }
    }
    return NULL;
}

static void *array_from_any(struct ps_pool *pool, size_t count) {
    void *array = ps_pool_runs_take(pool, count);
    return array != NULL ? array : array_from_room(pool, count);
}

static void *list_alloc_n(struct ps_pool *pool, size_t count) {
    void *array = array_from_any(pool, count);
    bool is_urgent = count > pool->uncarved_count;
    if (array == NULL && ps_pool_runs_merge(pool, is_urgent)) {
        array = array_from_any(pool, count);
    }
    return array;
}

static bool count_run(struct ps_pool *pool, void *array, size_t count) {
    ps_pool_find(pool, array)->found_count += count;
    return true;
}

static void list_count(struct ps_pool *pool) {
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        chunk->found_count = 0;
    }
    for (struct ps_pool_link *link = pool->free; link != NULL; link = link->next) {
        ps_pool_find(pool, link)->found_count++;
    }
    ps_pool_runs_each(pool, count_run);
}

static void list_sum(const struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                     struct ps_pool_sum *sum) {
    (void)pool;
    *sum = (struct ps_pool_sum){chunk->capacity, chunk->carved, chunk->found_count};
}

static bool is_of_used_chunk(struct ps_pool *pool, void *object, size_t count) {
    const struct ps_pool_chunk *chunk = ps_pool_find(pool, object);
    (void)count;
    return chunk->found_count != chunk->carved;
}

static void list_forget_drained(struct ps_pool *pool) {
    struct ps_pool_link **tail = &pool->free;
    for (struct ps_pool_link *link = pool->free; link != NULL; link = link->next) {
        if (is_of_used_chunk(pool, link, 1)) {
            *tail = link;
            tail = &link->next;
        }
    }
    *tail = NULL;
    ps_pool_runs_each(pool, is_of_used_chunk);
}

const struct ps_pool_actions ps_pool_list_actions = {
    .bytes_for = list_bytes_for,
    .build = list_build,
    .alloc = list_alloc,
    .alloc_n = list_alloc_n,
    .free_n = ps_pool_runs_add,
    .count = list_count,
    .sum = list_sum,
    .forget_drained = list_forget_drained,
};
