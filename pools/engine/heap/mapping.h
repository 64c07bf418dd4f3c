/* SPDX-License-Identifier: MIT */
/*
 * Mappings of their own for the largest blocks, and the bounded cache of freed ones. A freed
 * mapping is kept for the purge delay, up to cache_max_bytes in all, so that a program that takes
 * and frees large blocks in a loop pays for page faults and system calls once. (The idea of a
 * bounded cache with an age after rpmalloc.)
 *
 * Any thread; lock PS_RANK_MAPPING, system calls outside it. Caller: large.c.
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

void ps_mapping_start(const struct ps_config *config);

/* A mapping of at least `bytes` at a multiple of max(align, granule). kind BUSY; is_dirty tells
 * whether it was used before. NULL when the OS refuses. */
struct ps_run *ps_mapping_take(size_t bytes, size_t align);

/*
 * Whether the system would not unmap the last mapping that was to go. Those it keeps are runs of
 * the page cache, where large blocks had better be looked for first, or a program that allocates
 * and frees them would use up its addresses.
 */
bool ps_mapping_is_stuck(void);

/* How long a run must be that grows to become a mapping: longer than those freed of late, whose
 * successors had better be runs. */
size_t ps_mapping_grown_min_bytes(void);

void ps_mapping_give(struct ps_run *run);

/* Resizes in place or moves the pages; the old run is gone if the result is another one. NULL:
 * unchanged. */
struct ps_run *ps_mapping_resize(struct ps_run *run, size_t bytes);

/* Unmaps a step, 4 MiB, of what has been in the cache for the purge delay; now_ms UINT64_MAX:
 * everything. Returns the bytes given back. */
size_t ps_mapping_expire(uint64_t now_ms);

void ps_mapping_read(struct ps_mapping_counts *out);

/* In the child of a fork, by its only thread. */
void ps_mapping_fork_child(void);

#endif
