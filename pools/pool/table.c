/* SPDX-License-Identifier: MIT */
/*
 * Finds the chunk of an address, in O(1) and without reading the address. Few chunks are compared
 * one by one. For more there is a hash table with an entry for each 64 KiB of address space that a
 * chunk touches; an entry has the start and the end of its chunk, so chunks may share a granule.
 * Called by the kinds and pool.c. No locks.
 *
 *   table == NULL: chunk_count <= FEW_CHUNKS, or there was no memory for it
 *   else 2 * table_used <= table_size: a search ends at a free entry
 */
#include "pools/pool/pool.h"

#include "pools/engine/base/bits.h"

#include <errno.h>
#include <string.h>

enum { GRANULE_SHIFT = 16, FEW_CHUNKS = 8 };

struct ps_pool_entry {
    struct ps_pool_chunk *chunk; /* NULL: free */
    size_t bytes;
};

static size_t hash_of(uintptr_t granule, size_t table_size) {
    return (size_t)((granule * PS_GOLDEN_64) >> 32) & (table_size - 1);
}

static size_t granules_of(const struct ps_pool_chunk *chunk) {
    uintptr_t first = (uintptr_t)chunk;
    return ((first + chunk->bytes - 1) >> GRANULE_SHIFT) - (first >> GRANULE_SHIFT) + 1;
}

static void enter(struct ps_pool *pool, const struct ps_pool_chunk *chunk) {
    uintptr_t granule = (uintptr_t)chunk >> GRANULE_SHIFT;
    for (size_t left = granules_of(chunk); left > 0; left--, granule++) {
        size_t at = hash_of(granule, pool->table_size);
        while (pool->table[at].chunk != NULL) { /* ends: half of the entries are free */
            at = (at + 1) & (pool->table_size - 1);
        }
        pool->table[at] =
            (struct ps_pool_entry){(struct ps_pool_chunk *)(uintptr_t)chunk, chunk->bytes};
        pool->table_used++;
    }
}

void ps_pool_table_drop(struct ps_pool *pool) {
    if (pool->table != NULL) {
        ps_chunk_give(ps_pool_growth(pool), pool->table, pool->table_size * sizeof *pool->table);
        pool->table = NULL;
        pool->table_size = 0;
        pool->table_used = 0;
    }
}

void *ps_pool_take_aside(struct ps_pool *pool, size_t bytes) {
    struct ps_chunks *growth = ps_pool_growth(pool);
    ps_oom_handler *oom = growth->oom;
    int saved_errno = errno;
    growth->oom = NULL;
    void *memory = ps_chunk_take_exact(growth, bytes, PS_POOL_CHUNK_ALIGN);
    growth->oom = oom;
    errno = saved_errno;
    return memory != NULL ? memset(memory, 0, bytes) : NULL;
}

/* Without memory for a table the search goes through the chunks. */
void ps_pool_table_rebuild(struct ps_pool *pool) {
    ps_pool_table_drop(pool);
    size_t wanted = 0;
    size_t chunk_count = 0;
    for (const struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        wanted += granules_of(chunk);
        chunk_count++;
    }
    if (chunk_count <= FEW_CHUNKS) {
        return;
    }
    size_t size = (size_t)256 << (ps_log2(wanted) > 6 ? ps_log2(wanted) - 5 : 0);
    struct ps_pool_entry *table =
        (struct ps_pool_entry *)ps_pool_take_aside(pool, size * sizeof *table);
    if (table == NULL) {
        return;
    }
    pool->table = table;
    pool->table_size = size;
    for (const struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        enter(pool, chunk);
    }
}

void ps_pool_table_add(struct ps_pool *pool, const struct ps_pool_chunk *chunk) {
    if (pool->table != NULL && granules_of(chunk) <= pool->table_size / 2 - pool->table_used) {
        enter(pool, chunk);
    } else if (ps_pool_growth(pool)->chunk_count > FEW_CHUNKS) {
        ps_pool_table_rebuild(pool);
    }
}

struct ps_pool_chunk *ps_pool_find_slow(struct ps_pool *pool, uintptr_t address) {
    if (pool->table == NULL) {
        for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
            if (ps_pool_holds(chunk, address)) {
                pool->recent = chunk;
                return chunk;
            }
        }
        return NULL;
    }
    size_t at = hash_of(address >> GRANULE_SHIFT, pool->table_size);
    for (;; at = (at + 1) & (pool->table_size - 1)) { /* ends: half of the entries are free */
        const struct ps_pool_entry *entry = &pool->table[at];
        if (entry->chunk == NULL) {
            return NULL;
        }
        if (address - (uintptr_t)entry->chunk < entry->bytes) {
            pool->recent = entry->chunk;
            return entry->chunk;
        }
    }
}
