/* SPDX-License-Identifier: MIT */
/*
 * The ordered kind: a bit per object marks the free ones. pool->free lists up to 64 free objects of
 * the lowest word, in ascending order, so that the inline pop serves this kind too, and objects
 * that were freed since and lie below its head; they are not in the bits. In pools with checks, and
 * of objects too small for a link, that list is always empty. Called by pool.c. No locks.
 */
#include "pools/pool/bitmap.h"

#include <string.h>

static struct ps_pool_map *map_of(struct ps_pool_chunk *chunk) {
    return (struct ps_pool_map *)(void *)chunk;
}

static size_t words_for(size_t count) { return count / 64 + (count % 64 != 0); }

/* Words of all levels of `count` objects. */
static size_t all_words_for(const struct ps_pool *pool, size_t count) {
    size_t words = words_for(count);
    return words * (ps_pool_is_checked(pool) ? 2 : 1) + words_for(words) +
           words_for(words_for(words));
}

static size_t nodes_offset(const struct ps_pool *pool, size_t count) {
    return ps_round_up(sizeof(struct ps_pool_map) + all_words_for(pool, count) * sizeof(uint64_t),
                       pool->align);
}

size_t ps_pool_map_bytes_for(const struct ps_pool *pool, size_t count) {
    size_t bytes;
    return count <= SIZE_MAX / 2 && !__builtin_mul_overflow(count, pool->stride, &bytes) &&
                   !__builtin_add_overflow(bytes, nodes_offset(pool, count), &bytes)
               ? bytes
               : 0;
}

/* The number of objects that fit into a chunk: an estimate from above, lowered by the excess, then
 * raised while one more fits. Each of the two takes a few steps. */
static size_t capacity_of(const struct ps_pool *pool, size_t bytes) {
    size_t bits_each = pool->stride * 64 + (ps_pool_is_checked(pool) ? 16 : 8);
    size_t left = bytes - sizeof(struct ps_pool_map);
    size_t count = left >> 57 == 0 ? left * 64 / bits_each : left / pool->stride;
    size_t needed = ps_pool_map_bytes_for(pool, count);
    if (needed > bytes) {
        size_t excess = (needed - bytes) / pool->stride + 1;
        count = count > excess ? count - excess : 0;
    }
    while (ps_pool_map_bytes_for(pool, count + 1) <= bytes) {
        count++;
    }
    return count;
}

void ps_pool_map_build(struct ps_pool *pool, void *memory, size_t bytes) {
    struct ps_pool_map *map = (struct ps_pool_map *)memory;
    size_t capacity = capacity_of(pool, bytes);
    size_t words = words_for(capacity);
    uint64_t *bits = (uint64_t *)(void *)(map + 1);
    memset(bits, 0, all_words_for(pool, capacity) * sizeof *bits);
    *map = (struct ps_pool_map){
        .chunk = {.nodes = (char *)memory + nodes_offset(pool, capacity), .capacity = capacity},
        .bits = bits,
        .middle = bits + words,
        .top = bits + words + words_for(words),
        .top_count = words_for(words_for(words)),
        .run_bound = SIZE_MAX,
    };
    map->inner = ps_pool_is_checked(pool) ? map->top + map->top_count : NULL;
    if (ps_pool_is_checked(pool)) {
        ps_poison(map->chunk.nodes, capacity * pool->stride);
    }
    ps_pool_enter_chunk(pool, &map->chunk, bytes);
    ps_pool_room_add(pool, &map->chunk);
}

/* No chunk is current. */
static void set_run(struct ps_pool *pool, struct ps_pool_map *map, size_t index, size_t count) {
    map->chunk.free_count += count;
    map->run_bound = SIZE_MAX;
    while (count > 0) {
        size_t here = ps_min(count, 64 - (index & 63));
        ps_pool_bits_set(map, index >> 6, ps_pool_mask(index & 63, here));
        index += here;
        count -= here;
    }
    if (!map->chunk.is_in_room) {
        ps_pool_room_add(pool, &map->chunk);
    }
}

static void clear_run(struct ps_pool_map *map, size_t index, size_t count) {
    map->chunk.free_count -= count;
    while (count > 0) {
        size_t here = ps_min(count, 64 - (index & 63));
        ps_pool_bits_clear(map, index >> 6, ps_pool_mask(index & 63, here));
        index += here;
        count -= here;
    }
}

/* Returns the objects of the list to the bits: before any use of all bits. */
void ps_pool_map_flush(struct ps_pool *pool) {
    struct ps_pool_link *link = pool->free;
    pool->free = NULL;
    while (link != NULL) {
        struct ps_pool_link *next = link->next;
        struct ps_pool_chunk *chunk = ps_pool_find(pool, link);
        size_t offset = (size_t)((char *)link - chunk->nodes);
        set_run(pool, map_of(chunk), ps_pool_index(pool, offset), 1);
        link = next;
    }
}

/* Moves the lowest word of the bits to the list, which is empty, and pops its first. */
static void *refill(struct ps_pool *pool, struct ps_pool_map *map) {
    size_t word = ps_pool_bits_lowest(map);
    uint64_t ones = map->bits[word];
    ps_pool_bits_clear(map, word, ones);
    char *base = map->chunk.nodes + word * 64 * pool->stride;
    struct ps_pool_link **tail = &pool->free;
    size_t count = 0;
    do {
        struct ps_pool_link *link =
            (struct ps_pool_link *)(void *)(base + (size_t)__builtin_ctzll(ones) * pool->stride);
        *tail = link;
        tail = &link->next;
        ones &= ones - 1;
        count++;
    } while (ones != 0);
    *tail = NULL;
    map->chunk.free_count -= count;
    struct ps_pool_link *first = pool->free;
    pool->free = first->next;
    return first;
}

static void *take_lowest(struct ps_pool *pool, struct ps_pool_map *map) {
    size_t word = ps_pool_bits_lowest(map);
    size_t bit = (size_t)__builtin_ctzll(map->bits[word]);
    ps_pool_bits_clear(map, word, ps_pool_bit(bit));
    map->chunk.free_count--;
    return map->chunk.nodes + (word * 64 + bit) * pool->stride;
}

/* `count` objects that were never used; the chunk has them. With checks each is taken by itself, so
 * that the memory after it remains poisoned. */
static void *carve(struct ps_pool *pool, struct ps_pool_map *map, size_t count) {
    if (pool->has_links && ps_pool_expose(pool, &map->chunk)) {
        char *objects = pool->bump;
        pool->bump += count * pool->stride;
        return objects;
    }
    char *objects = map->chunk.nodes + map->chunk.carved * pool->stride;
    map->chunk.carved += count;
    pool->uncarved_count -= count;
    return objects;
}

void *ps_pool_map_alloc(struct ps_pool *pool) {
    ps_pool_settle(pool);
    struct ps_pool_chunk *next;
    for (struct ps_pool_chunk *chunk = pool->room_first; chunk != NULL; chunk = next) {
        next = chunk->room_next;
        if (chunk->free_count != 0) {
            return pool->has_links ? refill(pool, map_of(chunk)) : take_lowest(pool, map_of(chunk));
        }
        if (chunk->carved == chunk->capacity) {
            ps_pool_room_remove(pool, chunk);
        } else if (pool->uncarved_count != 0) {
            return carve(pool, map_of(chunk), 1);
        }
    }
    return NULL;
}

static void *run_in(struct ps_pool *pool, struct ps_pool_map *map, size_t count) {
    if (map->chunk.free_count >= count && map->run_bound >= count) {
        size_t index = ps_pool_bits_find_run(map, count);
        if (index != PS_POOL_NO_RUN) {
            clear_run(map, index, count);
            return map->chunk.nodes + index * pool->stride;
        }
        map->run_bound = count - 1;
    }
    return map->chunk.capacity - map->chunk.carved >= count && pool->uncarved_count >= count
               ? carve(pool, map, count)
               : NULL;
}

static void *run_in_any(struct ps_pool *pool, size_t count) {
    ps_pool_settle(pool);
    for (struct ps_pool_chunk *chunk = pool->room_first; chunk != NULL; chunk = chunk->room_next) {
        void *array = run_in(pool, map_of(chunk), count);
        if (array != NULL) {
            return array;
        }
    }
    return NULL;
}

static void *map_alloc_n(struct ps_pool *pool, size_t count) {
    void *array = run_in_any(pool, count);
    if (array == NULL && pool->free != NULL) {
        ps_pool_map_flush(pool);
        array = run_in_any(pool, count);
    }
    return array;
}

/* The chunk and the index of an object that is freed, which is one: else misuse. */
static struct ps_pool_map *locate(struct ps_pool *pool, const void *object, size_t *index) {
    struct ps_pool_chunk *chunk = ps_pool_find(pool, object);
    if (PS_UNLIKELY(chunk == NULL || (const char *)object < chunk->nodes)) {
        ps_debug_misuse("free of a foreign pointer", object, ps_pool_growth(pool)->name);
    }
    *index = ps_pool_index(pool, (size_t)((const char *)object - chunk->nodes));
    return map_of(chunk);
}

/* As ps_pool_map_free, when something has to be done before. */
PS_COLD static void free_after(struct ps_pool *pool, void *object) {
    size_t index;
    locate(pool, object, &index); /* its chunk is the recent one now */
    ps_pool_settle(pool);
    ps_pool_map_free(pool, object);
}

/* A leaf except at its ends, which is twice as fast as with calls in the middle. */
void ps_pool_map_free(struct ps_pool *pool, void *object) {
    struct ps_pool_chunk *chunk = pool->recent;
    if (PS_UNLIKELY(pool->current != NULL || chunk == NULL ||
                    !ps_pool_holds(chunk, (uintptr_t)object) || (char *)object < chunk->nodes)) {
        free_after(pool, object);
        return;
    }
    struct ps_pool_map *map = map_of(chunk);
    size_t index = ps_pool_index(pool, (size_t)((char *)object - chunk->nodes));
    uint64_t bit = ps_pool_bit(index);
    if (PS_UNLIKELY((map->bits[index >> 6] & bit) != 0)) {
        ps_debug_misuse("double free of", object, ps_pool_growth(pool)->name);
    }
    ps_pool_bits_set(map, index >> 6, bit);
    chunk->free_count++;
    map->run_bound = SIZE_MAX;
    if (PS_UNLIKELY(!chunk->is_in_room)) {
        ps_pool_room_add(pool, chunk);
    }
}

static void map_free_n(struct ps_pool *pool, void *array, size_t count) {
    size_t index;
    struct ps_pool_map *map = locate(pool, array, &index);
    ps_pool_settle(pool);
    set_run(pool, map, index, count);
}

void ps_pool_map_sum(const struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                     struct ps_pool_sum *sum) {
    (void)pool;
    *sum = (struct ps_pool_sum){chunk->capacity, chunk->carved, chunk->free_count};
}

void ps_pool_map_forget_drained(struct ps_pool *pool) { (void)pool; }

void ps_pool_map_each(struct ps_pool *pool, void (*visit)(void *object, void *context),
                      void *context) {
    ps_pool_settle(pool);
    ps_pool_map_flush(pool);
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        for (size_t first = 0; first < chunk->carved; first += 64) {
            uint64_t live = ~map_of(chunk)->bits[first >> 6] &
                            ps_pool_mask(0, ps_min(64, chunk->carved - first));
            for (; live != 0; live &= live - 1) {
                size_t index = first + (size_t)__builtin_ctzll(live);
                visit(chunk->nodes + index * pool->stride, context);
            }
        }
    }
}

const struct ps_pool_actions ps_pool_map_actions = {
    .bytes_for = ps_pool_map_bytes_for,
    .build = ps_pool_map_build,
    .alloc = ps_pool_map_alloc,
    .alloc_n = map_alloc_n,
    .free_n = map_free_n,
    .count = ps_pool_map_flush,
    .sum = ps_pool_map_sum,
    .forget_drained = ps_pool_map_forget_drained,
};
