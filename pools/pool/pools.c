/* SPDX-License-Identifier: MIT */
/*
 * A pool for each class of sizes, and blocks too large for any, which are linked by a head in front
 * of them. The part of poolshim/pools.h that is not inline. No locks.
 */
#include <poolshim/pools.h>

#include "pools/pool/pool.h"

#include <errno.h>

#define FAMILY "pools"

struct ps_pools_large {
    struct ps_pools_large *next;
    struct ps_pools_large *previous;
    void *chunk;
    size_t chunk_bytes;
    size_t bytes;
};

static struct ps_chunks *growth_of(struct ps_pools *pools) {
    return (struct ps_chunks *)(void *)pools->growth;
}

/* The largest size of a class; the inverse of ps_pools_class. */
static size_t size_of(size_t class_index) {
    return class_index < 8 ? (class_index + 1) * 16
                           : ((class_index - 8) % 4 + 5) << ((class_index - 8) / 4 + 5);
}

void ps_pools_init(struct ps_pools *pools, const struct ps_chunk_options *options) {
    struct ps_pool_options each = {0};
    if (options != NULL) {
        each.chunks = *options;
    }
    if (each.chunks.name == NULL) {
        each.chunks.name = FAMILY;
    }
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        ps_pool_init_part(&pools->classes[i], size_of(i), PS_ALIGN_DEFAULT, &each);
        ps_pool_growth(&pools->classes[i])->family = FAMILY;
    }
    pools->large = NULL;
    pools->large_count = 0;
    if (ps_debug_is_malloc()) {
        each.chunks.source = ps_source_malloc();
    }
    ps_chunks_init(growth_of(pools), &each.chunks, FAMILY, PS_POOLS_SIZE_MAX, PS_POOLS_SIZE_MAX);
    if (PS_UNLIKELY(ps_debug_is_leaks())) {
        (void)ps_pools_enlist(pools); /* without memory it is not listed */
    }
}

static size_t live(void *pools, size_t *bytes) {
    struct ps_pools_stats stats;
    ps_pools_stats((struct ps_pools *)pools, &stats);
    *bytes = stats.used_bytes;
    return stats.used_count;
}

/* The chunks of all classes count in the one record. */
bool ps_pools_enlist(struct ps_pools *pools) {
    static const struct ps_family family = {.name = FAMILY, .live = live};
    struct ps_chunks *growth = growth_of(pools);
    if (growth->record != NULL) {
        return true;
    }
    if (!ps_registry_enter(growth, pools, &family)) {
        return false;
    }
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        struct ps_chunks *part = ps_pool_growth(&pools->classes[i]);
        part->record = growth->record;
        ps_registry_count(part->record, part->total_bytes, part->chunk_count);
    }
    return true;
}

static void end_listing(struct ps_pools *pools) {
    ps_registry_leave(growth_of(pools));
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        ps_pool_growth(&pools->classes[i])->record = NULL;
    }
}

static void unlink_and_give(struct ps_pools *pools, struct ps_pools_large *large) {
    *(large->previous != NULL ? &large->previous->next : &pools->large) = large->next;
    if (large->next != NULL) {
        large->next->previous = large->previous;
    }
    pools->large_count--;
    ps_chunk_give(growth_of(pools), large->chunk, large->chunk_bytes);
}

void *ps_pools_alloc_large(struct ps_pools *pools, size_t bytes, size_t align) {
    _Static_assert(sizeof(struct ps_pools_large) <= PS_POOL_CHUNK_ALIGN, "the head fits");
    if (!ps_is_power_of_two(align) || align > PS_POOL_ALIGN_MAX) {
        errno = EINVAL;
        return NULL;
    }
    size_t head = ps_max(align, PS_POOL_CHUNK_ALIGN);
    if (bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    char *chunk = (char *)ps_chunk_take_exact(growth_of(pools), head + bytes, head);
    if (chunk == NULL) {
        return NULL;
    }
    char *block = chunk + head;
    struct ps_pools_large *large = (struct ps_pools_large *)(void *)(block - PS_POOL_CHUNK_ALIGN);
    *large = (struct ps_pools_large){pools->large, NULL, chunk, head + bytes, bytes};
    if (pools->large != NULL) {
        pools->large->previous = large;
    }
    pools->large = large;
    pools->large_count++;
    return block;
}

void ps_pools_free_large(struct ps_pools *pools, void *block) {
    if (block != NULL) {
        int saved_errno = errno;
        unlink_and_give(pools,
                        (struct ps_pools_large *)(void *)((char *)block - PS_POOL_CHUNK_ALIGN));
        errno = saved_errno;
    }
}

static void free_all_large(struct ps_pools *pools) {
    while (pools->large != NULL) {
        unlink_and_give(pools, pools->large);
    }
}

void ps_pools_destroy(struct ps_pools *pools) {
    if (PS_UNLIKELY(growth_of(pools)->record != NULL)) {
        end_listing(pools);
    }
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        ps_pool_destroy(&pools->classes[i]);
    }
    free_all_large(pools);
}

void ps_pools_reset(struct ps_pools *pools) {
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        ps_pool_reset(&pools->classes[i]);
    }
    free_all_large(pools);
}

size_t ps_pools_trim_to(struct ps_pools *pools, size_t keep_bytes) {
    size_t given_bytes = 0;
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        given_bytes += ps_pool_trim_empty(&pools->classes[i], &keep_bytes);
    }
    return given_bytes;
}

size_t ps_pools_trim(struct ps_pools *pools) { return ps_pools_trim_to(pools, 0); }

bool ps_pools_owns(struct ps_pools *pools, const void *address) {
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        if (ps_pool_owns(&pools->classes[i], address)) {
            return true;
        }
    }
    for (const struct ps_pools_large *large = pools->large; large != NULL; large = large->next) {
        if ((uintptr_t)address - ((uintptr_t)large + PS_POOL_CHUNK_ALIGN) < large->bytes) {
            return true;
        }
    }
    return false;
}

void ps_pools_stats(struct ps_pools *pools, struct ps_pools_stats *stats) {
    const struct ps_chunks *growth = growth_of(pools);
    *stats = (struct ps_pools_stats){
        .name = growth->name,
        .used_count = pools->large_count,
        .large_count = pools->large_count,
        .chunk_count = growth->chunk_count,
        .total_bytes = growth->total_bytes,
    };
    for (const struct ps_pools_large *large = pools->large; large != NULL; large = large->next) {
        stats->used_bytes += large->bytes;
    }
    for (size_t i = 0; i < PS_POOLS_CLASSES; i++) {
        struct ps_pool_stats each;
        ps_pool_stats(&pools->classes[i], &each);
        stats->used_count += each.used_count;
        stats->used_bytes += each.used_count * each.stride_bytes;
        stats->chunk_count += each.chunk_count;
        stats->total_bytes += each.total_bytes;
    }
}
