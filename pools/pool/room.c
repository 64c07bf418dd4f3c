/* SPDX-License-Identifier: MIT */
/*
 * The places of a chunk: current, in the list of chunks with room, full. Called by the kinds and
 * pool.c; calls table.c. No locks.
 *
 *   uncarved_count + carved of all chunks + [bump, end) == max_items (SIZE_MAX without a limit)
 */
#include "pools/pool/pool.h"

/*
 * Older chunks go in front of younger ones, so that the young can drain; exact order would take a
 * search, so this only compares with the first.
 */
PS_NOINLINE void ps_pool_room_add(struct ps_pool *pool, struct ps_pool_chunk *chunk) {
    struct ps_pool_chunk *first = pool->room_first;
    bool is_front = first == NULL || chunk->number < first->number;
    struct ps_pool_chunk *previous = is_front ? NULL : pool->room_last;
    chunk->is_in_room = true;
    chunk->room_previous = previous;
    chunk->room_next = is_front ? first : NULL;
    *(previous != NULL ? &previous->room_next : &pool->room_first) = chunk;
    *(chunk->room_next != NULL ? &first->room_previous : &pool->room_last) = chunk;
}

void ps_pool_room_remove(struct ps_pool *pool, struct ps_pool_chunk *chunk) {
    struct ps_pool_chunk *next = chunk->room_next;
    struct ps_pool_chunk *previous = chunk->room_previous;
    chunk->is_in_room = false;
    *(previous != NULL ? &previous->room_next : &pool->room_first) = next;
    *(next != NULL ? &next->room_previous : &pool->room_last) = previous;
}

PS_NOINLINE void ps_pool_settle_current(struct ps_pool *pool) {
    struct ps_pool_chunk *chunk = pool->current;
    chunk->carved = ps_pool_index(pool, (size_t)(pool->bump - chunk->nodes));
    pool->uncarved_count += ps_pool_index(pool, (size_t)(pool->end - pool->bump));
    pool->bump = NULL;
    pool->end = NULL;
    pool->current = NULL;
    if (ps_pool_has_room(chunk)) {
        ps_pool_room_add(pool, chunk);
    }
}

bool ps_pool_expose(struct ps_pool *pool, struct ps_pool_chunk *chunk) {
    size_t count = ps_min(chunk->capacity - chunk->carved, pool->uncarved_count);
    if (count == 0) {
        return false;
    }
    if (chunk->is_in_room) {
        ps_pool_room_remove(pool, chunk);
    }
    pool->uncarved_count -= count;
    pool->current = chunk;
    pool->bump = chunk->nodes + chunk->carved * pool->stride;
    pool->end = pool->bump + count * pool->stride;
    return true;
}

void ps_pool_enter_chunk(struct ps_pool *pool, struct ps_pool_chunk *chunk, size_t bytes) {
    chunk->next = pool->chunks;
    chunk->bytes = bytes;
    chunk->number = pool->chunk_number++;
    pool->chunks = chunk;
    ps_pool_table_add(pool, chunk);
}
