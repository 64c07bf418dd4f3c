/* SPDX-License-Identifier: MIT */
/*
 * The census: a snapshot of everything that the engine counts, taken on demand. Each layer owns its
 * counters; this file adds them up, and takes the words that figures.def names. Callers:
 * shim/stats.c, shim/introspect.c, tests. Any thread, at any time. Takes the page-cache
 * lock, allocates nothing, needs about 3 KiB for the result. Cost:
 * O(granules in use).
 */
#ifndef PS_RECORD_CENSUS_H
#define PS_RECORD_CENSUS_H

#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_census_class {
    uint32_t block_bytes;     /* size of every block of the class */
    uint64_t live_blocks;     /* allocated */
    uint64_t prepared_blocks; /* ready in windows and fronts, not live */
    uint64_t slabs;           /* slabs of this class */
    uint64_t slab_bytes;      /* their address space */
    uint64_t taken_blocks;    /* allocated from slabs since the start */
    uint64_t rounding;        /* share of a block beyond its request, of 65536: the mean of a sample
                               * of requests */
};

struct ps_census {
    /* Counted in one word each; bytes and counts. */
#define PS_FIGURE(...)
#define PS_FIGURE_IF(...)
#define PS_WORD(section, key, unit, name, word, metric, label, help) uint64_t name;
#include "pools/engine/record/figures.def"
    /* bytes */
    uint64_t arena_bytes;       /* address space reserved in arenas */
    uint64_t mapped_bytes;      /* arenas used so far + mappings + samples + metadata */
    uint64_t rounding_bytes;    /* estimate: of small_live_bytes, more than was requested */
    uint64_t small_live_bytes;  /* sum of live_blocks x block_bytes */
    uint64_t small_slab_bytes;  /* sum of slab_bytes */
    uint64_t run_live_bytes;    /* live runs */
    uint64_t run_cached_bytes;  /* medium blocks in caches */
    uint64_t pages_bytes;       /* granules that the pools library allocates by pages */
    uint64_t map_live_bytes;    /* live mappings (large blocks) */
    uint64_t cache_dirty_bytes; /* other free runs that hold memory */
    uint64_t cache_clean_bytes; /* free runs that hold none (never touched, or purged) */
    uint64_t map_cached_bytes;  /* freed large mappings kept for reuse */
    /* counts */
    uint64_t malloc_count; /* blocks allocated since the start */
    uint64_t free_count;   /* of them, freed: malloc_count less live blocks */
    uint64_t arena_count;
    uint64_t run_live_count;
    uint64_t map_live_count;
    uint64_t map_cached_count;
    bool has_calls;           /* malloc_count and free_count are known: not where freed blocks
                               * are quarantined */
    const char *limit_source; /* what the limit was computed from */
    uint32_t class_count;     /* without those that only partitions have, unless there are slabs */
    struct ps_census_class classes[PS_CLASS_LIMIT];
};

/* Fills *out. */
void ps_census_take(struct ps_census *out);

/*
 * The same from a signal handler, or inside of a call of malloc: takes no lock and changes nothing.
 * Blocks in the caller's free streak count as live, and runs that another thread is
 * moving may be missing or count twice.
 */
void ps_census_peek(struct ps_census *out);

#endif
