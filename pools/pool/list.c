/* SPDX-License-Identifier: MIT */
/*
 * The usual kind: free objects hold the link to the next free one, newest first; chunks know only
 * how much of them was ever used. Called through its actions by pool.c. No locks.
 */
#include "pools/pool/state.h"

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
}

static void *carve(struct ps_pool *pool, size_t count) {
    char *objects = pool->bump;
    pool->bump = objects + count * pool->stride;
    return objects;
}

static void *list_alloc(struct ps_pool *pool) {
    ps_pool_settle(pool);
    struct ps_pool_chunk *chunk = pool->room_first;
    return chunk != NULL && ps_pool_expose(pool, chunk) ? carve(pool, 1) : NULL;
}

/* The first objects of the list, when they are neighbours in ascending order, as an array leaves
 * them when it is freed. */
static void *array_at_head(struct ps_pool *pool, size_t count) {
    struct ps_pool_link *first = pool->free;
    struct ps_pool_link *link = first;
    for (size_t i = 1; link != NULL && i < count; i++) {
        link = (char *)link->next == (char *)link + pool->stride ? link->next : NULL;
    }
    if (link == NULL) {
        return NULL;
    }
    pool->free = link->next;
    return first;
}

static void *list_alloc_n(struct ps_pool *pool, size_t count) {
    void *array = array_at_head(pool, count);
    if (array != NULL) {
        return array;
    }
    ps_pool_settle(pool);
    for (struct ps_pool_chunk *chunk = pool->room_first; chunk != NULL; chunk = chunk->room_next) {
        if (chunk->capacity - chunk->carved >= count && pool->uncarved_count >= count) {
            ps_pool_expose(pool, chunk);
            return carve(pool, count);
        }
    }
    return NULL;
}

static void list_free_n(struct ps_pool *pool, void *array, size_t count) {
    struct ps_pool_link *head = pool->free;
    char *object = (char *)array + count * pool->stride;
    while (object != (char *)array) {
        object -= pool->stride;
        ((struct ps_pool_link *)(void *)object)->next = head;
        head = (struct ps_pool_link *)(void *)object;
    }
    pool->free = head;
}

static void list_count(struct ps_pool *pool) {
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        chunk->found_count = 0;
    }
    for (struct ps_pool_link *link = pool->free; link != NULL; link = link->next) {
        ps_pool_find(pool, link)->found_count++;
    }
}

static void list_sum(const struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                     struct ps_pool_sum *sum) {
    (void)pool;
    *sum = (struct ps_pool_sum){chunk->capacity, chunk->carved, chunk->found_count};
}

static void list_forget_drained(struct ps_pool *pool) {
    struct ps_pool_link **tail = &pool->free;
    for (struct ps_pool_link *link = pool->free; link != NULL; link = link->next) {
        const struct ps_pool_chunk *chunk = ps_pool_find(pool, link);
        if (chunk->found_count != chunk->carved) {
            *tail = link;
            tail = &link->next;
        }
    }
    *tail = NULL;
}

const struct ps_pool_actions ps_pool_list_actions = {
    .bytes_for = list_bytes_for,
    .build = list_build,
    .alloc = list_alloc,
    .alloc_n = list_alloc_n,
    .free_n = list_free_n,
    .count = list_count,
    .sum = list_sum,
    .forget_drained = list_forget_drained,
};
