/* SPDX-License-Identifier: MIT */
/*
 * Mappings for the largest blocks, and the bounded cache of freed ones. Freed mappings are cached
 * for the purge delay, up to cache_max_bytes in all. So a loop that allocates and frees large
 * blocks costs page faults and system calls in its first round only. (The bounded cache with an age
 * after rpmalloc.)
 *
 * Any thread; lock PS_RANK_MAPPING, with system calls outside of it. Caller: large.c.
 */
#ifndef PS_HEAP_MAPPING_H
#define PS_HEAP_MAPPING_H

#include "pools/engine/base/config.h"
#include "pools/engine/page/page_map.h"

struct ps_mapping_counts {
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t cached_count;
    uint64_t cached_bytes;
};

/* Written under the lock. Read from outside the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_mapping_counts ps_mapping_x_counts;

/* Most bytes in the cache. Also written from outside of the process (`poolshim set`). */
extern PS_HIDDEN size_t ps_mapping_x_cache_max_bytes;

void ps_mapping_start(const struct ps_config *config);

/* Changes the bytes that the cache may have, from the next mapping on that is freed. False where
 * nothing is cached, because blocks are hardened. */
bool ps_mapping_set_cache_max(size_t bytes);

/* Allocates a mapping of at least `bytes`, aligned to max(align, granule). kind BUSY; is_dirty
 * tells whether it was used before. NULL when the OS refuses. */
struct ps_run *ps_mapping_take(size_t bytes, size_t align);

/* The same, but from the cache only. NULL: no cached mapping suits. */
struct ps_run *ps_mapping_take_kept(size_t bytes, size_t align);

/*
 * True when the system refused the last unmapping. Such mappings become runs of the page cache,
 * from which large blocks should then be allocated first; otherwise a program that allocates and
 * frees them would exhaust its addresses.
 */
bool ps_mapping_is_stuck(void);

/* Minimum length at which a growing run becomes a mapping: longer than recently freed mappings,
 * because blocks of their size are better served by runs. */
size_t ps_mapping_grown_min_bytes(void);

void ps_mapping_give(struct ps_run *run);

/* Resizes in place or moves the pages; if the result is another run, the old one no longer exists.
 * NULL: unchanged. */
struct ps_run *ps_mapping_resize(struct ps_run *run, size_t bytes);

/* Unmaps a step, 4 MiB, of mappings that have been cached for the purge delay; now_ms UINT64_MAX:
 * all. Returns the unmapped bytes. */
size_t ps_mapping_expire(uint64_t now_ms);

/* Unmaps a step of the mapping that was cached first. Returns the unmapped bytes. */
size_t ps_mapping_expire_some(void);

/* Adds to the counts of live mappings: of one that is not of this file's. */
void ps_mapping_count_live(int64_t blocks, int64_t bytes);

void ps_mapping_read(struct ps_mapping_counts *out);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_mapping_fork_child(void);

#endif
