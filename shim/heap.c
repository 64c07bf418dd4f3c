/* SPDX-License-Identifier: MIT */
/*
 * Heaps as objects: partitions of the heap (pools/engine/heap/partition_path.h) under names of
 * their own. Their contract is in the public header. No locks.
 *
 * The value of a heap is the index of its partition, and how many partitions the record has had: so
 * one that has ended is recognised, until 2^32 others have had the record. Its highest bit is set,
 * which no address of a program has.
 */
#include "pools/include/poolshim/heap.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/partition_path.h"

#include <errno.h>
#include <string.h>

#define LIMIT_LEAST 4096
#define OPTIONS_BYTES_MOST 4096 /* no later version has more */
#define GENERATION_SHIFT 16
#define IS_VALUE ((uint64_t)1 << 63)

_Static_assert(PS_PARTITIONS == 1 << GENERATION_SHIFT, "an index below the generation");
_Static_assert(sizeof((struct poolshim_heap_stats){0}.name) == PS_PARTITION_NAME_BYTES,
               "a name is copied whole");

static poolshim_heap *value_of(const struct ps_partition *partition) {
    uint64_t generation = ps_load_relaxed(&partition->x_generation); /* relaxed: constant now */
    return (poolshim_heap *)(uintptr_t)(IS_VALUE | generation << GENERATION_SHIFT |
                                        partition->index);
}

/* The partition of a heap that exists; NULL with errno EINVAL: there is none. */
static struct ps_partition *partition_of(const poolshim_heap *heap) {
    uint64_t value = (uint64_t)(uintptr_t)heap;
    struct ps_partition *partition = ps_partition_at(value & (PS_PARTITIONS - 1));
    bool is_one = (value & IS_VALUE) != 0 && partition != NULL && partition->is_object &&
                  ps_partition_is(partition, PS_PARTITION_LIVE) && value_of(partition) == heap;
    if (PS_UNLIKELY(!is_one)) {
        errno = EINVAL;
        return NULL;
    }
    return partition;
}

/* ---- life ---- */

static bool is_zero(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Reads the options; returns 0 or an errno. */
static int read_options(const struct poolshim_heap_options *given,
                        struct poolshim_heap_options *options) {
    *options = (struct poolshim_heap_options){.bytes = sizeof *options};
    if (given == NULL) {
        return 0;
    }
    if (given->bytes < sizeof given->bytes || given->bytes > OPTIONS_BYTES_MOST) {
        return EINVAL;
    }
    if (given->bytes > sizeof *options &&
        !is_zero((const char *)given + sizeof *options, given->bytes - sizeof *options)) {
        return ENOTSUP;
    }
    memcpy(options, given, ps_min(given->bytes, sizeof *options));
    bool is_little = options->limit_bytes != 0 && options->limit_bytes < LIMIT_LEAST;
    return is_little ? EINVAL : 0;
}

poolshim_heap *poolshim_heap_create(const struct poolshim_heap_options *options) {
    struct poolshim_heap_options wanted;
    int saved_errno = errno;
    int error = read_options(options, &wanted);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    struct ps_partition *partition = ps_partition_create(wanted.name, wanted.limit_bytes);
    if (partition == NULL) {
        return NULL;
    }
    partition->is_object = true;
    errno = saved_errno;
    return value_of(partition);
}

static int end(poolshim_heap *heap, bool (*end_partition)(struct ps_partition *partition)) {
    int saved_errno = errno;
    struct ps_partition *partition = partition_of(heap);
    if (partition == NULL) {
        return -1;
    }
    if (!end_partition(partition)) {
        errno = EINVAL;
        return -1;
    }
    errno = saved_errno;
    return 0;
}

int poolshim_heap_destroy(poolshim_heap *heap) { return end(heap, ps_partition_destroy); }

int poolshim_heap_delete(poolshim_heap *heap) { return end(heap, ps_partition_leave); }

/* ---- blocks ---- */

static void *alloc(poolshim_heap *heap, size_t bytes, size_t align, bool is_zeroed) {
    struct ps_partition *partition = partition_of(heap);
    if (PS_UNLIKELY(partition == NULL)) {
        return NULL;
    }
    int saved_errno = errno;
    void *block = ps_partition_alloc(partition, bytes, align, is_zeroed);
    errno = block != NULL ? saved_errno : errno;
    return block;
}

void *poolshim_heap_alloc(poolshim_heap *heap, size_t bytes) {
    return alloc(heap, bytes, 1, false);
}

void *poolshim_heap_zalloc(poolshim_heap *heap, size_t bytes) {
    return alloc(heap, bytes, 1, true);
}

void *poolshim_heap_alloc_aligned(poolshim_heap *heap, size_t bytes, size_t align) {
    if (!ps_is_power_of_two(align)) {
        errno = EINVAL;
        return NULL;
    }
    return alloc(heap, bytes, align, false);
}

void *poolshim_heap_realloc(poolshim_heap *heap, void *block, size_t bytes) {
    bytes = ps_max(bytes, 1);
    if (block == NULL) {
        return alloc(heap, bytes, 1, false);
    }
    struct ps_partition *partition = partition_of(heap);
    if (partition == NULL) {
        return NULL;
    }
    if (ps_partition_of(block) == partition) {
        return ps_block_resize(block, bytes);
    }
    return ps_block_move(alloc(heap, bytes, 1, false), block, bytes);
}

poolshim_heap *poolshim_heap_of(const void *block) {
    int saved_errno = errno;
    const struct ps_partition *partition = block != NULL ? ps_partition_of(block) : NULL;
    poolshim_heap *heap = partition != NULL ? value_of(partition) : NULL;
    bool is_one = heap != NULL && partition_of(heap) != NULL;
    errno = saved_errno;
    return is_one ? heap : NULL;
}

/* ---- statistics ---- */

int poolshim_heap_stats_read(poolshim_heap *heap, struct poolshim_heap_stats *stats, size_t bytes) {
    const struct ps_partition *partition = partition_of(heap);
    if (partition == NULL || stats == NULL || bytes < sizeof stats->bytes) {
        errno = EINVAL;
        return -1;
    }
    struct ps_partition_use use;
    ps_partition_read(partition, &use);
    struct poolshim_heap_stats known = {
        .bytes = ps_min(bytes, sizeof known),
        .live_bytes = use.live_bytes,
        .live_count = use.live_count,
        .made_count = use.made_count,
        .peak_bytes = use.peak_bytes,
        .limit_bytes = use.limit_bytes,
        .refused_count = use.refused_count,
        .mapped_bytes = use.mapped_bytes,
        .free_bytes = use.held_bytes,
    };
    memcpy(known.name, partition->name, sizeof known.name);
    memset(stats, 0, bytes);
    memcpy(stats, &known, known.bytes);
    return 0;
}
