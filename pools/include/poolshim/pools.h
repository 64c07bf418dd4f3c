/* SPDX-License-Identifier: MIT */
/*
 * pools.h - objects of any size, allocated and freed in any order: a pool of poolshim/pool.h for
 * each class of sizes.
 *
 * As fast as a single pool, at the cost of rounding: up to 128 bytes to a multiple of 16, then to
 * one of four steps per doubling, at most 25 % more. Above PS_POOLS_SIZE_MAX a block gets a chunk
 * of its own. The caller passes the size to the free, so blocks have no headers.
 *
 *     struct ps_pools pools;
 *     ps_pools_init(&pools, NULL);
 *     char *text = ps_pools_alloc(&pools, 100);
 *     ps_pools_free(&pools, text, 100);
 *     ps_pools_destroy(&pools);
 *
 * Blocks are aligned to 16. One thread at a time. The struct may not be moved. The modes of
 * PS_DEBUG are those of poolshim/pool.h, which report a block freed with the size of another class
 * as a foreign pointer.
 *
 * After the pool collections of foonathan/memory.
 */
#ifndef POOLSHIM_POOLS_H
#define POOLSHIM_POOLS_H

#include <poolshim/pool.h>

PS_BEGIN_DECLS

#define PS_POOLS_SIZE_MAX PS_CAST(size_t, 4096)
#define PS_POOLS_CLASSES 28

/* All fields are the library's own. */
struct ps_pools {
    struct ps_pool classes[PS_POOLS_CLASSES];
    struct ps_pools_large *large;
    size_t large_count;
    uint64_t growth[16];
};

/* Makes *pools empty; takes no memory. options: as for a pool, for each of them; NULL for the
 * defaults. So max_bytes bounds the chunks of one class, not the sum: for a limit of all, pass a
 * ps_source_account as their source. O(classes). */
PS_API void ps_pools_init(struct ps_pools *pools,
                          const struct ps_chunk_options *options) PS_NOEXCEPT;

/* Gives all memory back, that of live blocks too. O(chunks). */
PS_API void ps_pools_destroy(struct ps_pools *pools) PS_NOEXCEPT;

/* Forgets all blocks; retains the largest chunk of each class. O(chunks). */
PS_API void ps_pools_reset(struct ps_pools *pools) PS_NOEXCEPT;

/* Returns chunks without a live block until at most keep_bytes of them are left, of all classes
 * together. Returns the bytes. As ps_pool_trim_to. */
PS_API size_t ps_pools_trim_to(struct ps_pools *pools, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_pools_trim_to(pools, 0)")
PS_API size_t ps_pools_trim(struct ps_pools *pools) PS_NOEXCEPT;

/* A block with a chunk of its own, of any size and any alignment up to PS_POOL_ALIGN_MAX, and its
 * end. NULL: ENOMEM, or EINVAL for a bad align. O(1) and the source. */
PS_API void *ps_pools_alloc_large(struct ps_pools *pools, size_t bytes, size_t align);
PS_API void ps_pools_free_large(struct ps_pools *pools, void *block) PS_NOEXCEPT;

/* The library's own: the place of class c, and of 2, 4, .. steps of 16 bytes in the same class. */
#define PS_POOLS_1(c) (uint16_t)((c) * sizeof(struct ps_pool))
#define PS_POOLS_2(c) PS_POOLS_1(c), PS_POOLS_1(c)
#define PS_POOLS_4(c) PS_POOLS_2(c), PS_POOLS_2(c)
#define PS_POOLS_8(c) PS_POOLS_4(c), PS_POOLS_4(c)
#define PS_POOLS_16(c) PS_POOLS_8(c), PS_POOLS_8(c)
#define PS_POOLS_32(c) PS_POOLS_16(c), PS_POOLS_16(c)
#define PS_POOLS_DOUBLING(steps, c)                                                                \
    PS_POOLS_##steps(c), PS_POOLS_##steps(c + 1), PS_POOLS_##steps(c + 2), PS_POOLS_##steps(c + 3)

/* The library's own: the index in `classes` of the pool for a size up to PS_POOLS_SIZE_MAX. A load,
 * without a branch and a multiplication, which take longer where sizes vary. */
static inline size_t ps_pools_place(size_t bytes) PS_NOEXCEPT {
    static const uint16_t places[PS_POOLS_SIZE_MAX / 16 + 1] = {PS_POOLS_1(0),
                                                                PS_POOLS_DOUBLING(1, 0),
                                                                PS_POOLS_DOUBLING(1, 4),
                                                                PS_POOLS_DOUBLING(2, 8),
                                                                PS_POOLS_DOUBLING(4, 12),
                                                                PS_POOLS_DOUBLING(8, 16),
                                                                PS_POOLS_DOUBLING(16, 20),
                                                                PS_POOLS_DOUBLING(32, 24)};
    return places[(bytes + 15) / 16];
}
static inline struct ps_pool *ps_pools_pool(struct ps_pools *pools, size_t bytes) PS_NOEXCEPT {
    return (struct ps_pool *)(void *)((char *)pools->classes + ps_pools_place(bytes));
}

/* The class of a size from 1 to PS_POOLS_SIZE_MAX; 0 is in the class of 1. */
static inline size_t ps_pools_class(size_t bytes) PS_NOEXCEPT {
    return ps_pools_place(bytes) / sizeof(struct ps_pool);
}

/* A block of `bytes`; 0 gives a unique pointer. NULL: ENOMEM. O(1). */
PS_MALLOC static inline void *ps_pools_alloc(struct ps_pools *pools, size_t bytes) {
    if (__builtin_expect(bytes <= PS_POOLS_SIZE_MAX, 1)) {
        return ps_pool_alloc(ps_pools_pool(pools, bytes));
    }
    return ps_pools_alloc_large(pools, bytes, PS_ALIGN_DEFAULT);
}

/* Frees a block; bytes: as it was allocated. NULL does nothing. O(1). */
static inline void ps_pools_free(struct ps_pools *pools, void *block, size_t bytes) PS_NOEXCEPT {
    if (__builtin_expect(bytes <= PS_POOLS_SIZE_MAX, 1)) {
        ps_pool_free(ps_pools_pool(pools, bytes), block);
        return;
    }
    ps_pools_free_large(pools, block);
}

/* True when an address lies in the memory of a block, live or free. O(classes + large blocks). */
PS_API bool ps_pools_owns(struct ps_pools *pools, const void *address) PS_NOEXCEPT;

/* Lists the pools in the registry of poolshim/registry.h, until they are destroyed; does nothing if
 * they are listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_pools_enlist(struct ps_pools *pools) PS_NOEXCEPT;

struct ps_pools_stats {
    const char *name;
    size_t used_count;  /* live blocks */
    size_t used_bytes;  /* of them, as rounded */
    size_t large_count; /* of them, with a chunk of their own */
    size_t chunk_count;
    size_t total_bytes; /* taken from the source */
};
/* O(chunks + free blocks). */
PS_API void ps_pools_stats(struct ps_pools *pools, struct ps_pools_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
