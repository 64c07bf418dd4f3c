/* SPDX-License-Identifier: MIT */
/*
 * PS_DEBUG=malloc: each object, or array of them, is a malloc block of its own, so that tools for
 * malloc see it. The head in front of it is on a list, by which reset and destroy find it. Called
 * by pool.c; calls the source malloc. No locks.
 */
#include "pools/pool/pool.h"

struct ps_pool_block {
    struct ps_pool_block *next;
    struct ps_pool_block *previous;
    size_t count; /* objects */
};

static size_t object_offset(const struct ps_pool *pool) {
    return ps_round_up(sizeof(struct ps_pool_block), pool->align);
}

static char *object_of(const struct ps_pool *pool, struct ps_pool_block *block) {
    return (char *)block + object_offset(pool);
}

static size_t block_bytes(const struct ps_pool *pool, size_t count) {
    return object_offset(pool) + (count - 1) * pool->stride + pool->size_bytes;
}

void *ps_pool_heap_alloc(struct ps_pool *pool, size_t count) {
    struct ps_source *source = ps_source_malloc();
    if (pool->uncarved_count < count || count > PTRDIFF_MAX / pool->stride) {
        return NULL;
    }
    struct ps_pool_block *block = (struct ps_pool_block *)source->alloc(
        source, block_bytes(pool, count), ps_max(pool->align, PS_ALIGN_DEFAULT));
    if (block == NULL) {
        return NULL;
    }
    *block = (struct ps_pool_block){.next = pool->blocks, .count = count};
    if (pool->blocks != NULL) {
        pool->blocks->previous = block;
    }
    pool->blocks = block;
    pool->block_count += count;
    pool->uncarved_count -= count;
    return object_of(pool, block);
}

void ps_pool_heap_free(struct ps_pool *pool, void *object, size_t count) {
    struct ps_pool_block *block =
        (struct ps_pool_block *)(void *)((char *)object - object_offset(pool));
    if (block->count != count) {
        ps_debug_misuse("free with another length than it was allocated with", object,
                        ps_pool_growth(pool)->name);
    }
    *(block->previous != NULL ? &block->previous->next : &pool->blocks) = block->next;
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
    pool->block_count -= count;
    pool->uncarved_count += count;
    struct ps_source *source = ps_source_malloc();
    source->free(source, block, block_bytes(pool, count));
}

void ps_pool_heap_free_all(struct ps_pool *pool) {
    while (pool->blocks != NULL) {
        ps_pool_heap_free(pool, object_of(pool, pool->blocks), pool->blocks->count);
    }
}

bool ps_pool_heap_owns(const struct ps_pool *pool, const void *address) {
    for (struct ps_pool_block *block = pool->blocks; block != NULL; block = block->next) {
        uintptr_t offset = (uintptr_t)address - (uintptr_t)object_of(pool, block);
        if (offset < block->count * pool->stride) {
            return true;
        }
    }
    return false;
}

void ps_pool_heap_each(struct ps_pool *pool, void (*visit)(void *object, void *context),
                       void *context) {
    for (struct ps_pool_block *block = pool->blocks; block != NULL; block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            visit(object_of(pool, block) + i * pool->stride, context);
        }
    }
}
