/* SPDX-License-Identifier: MIT */
/*
 * Recording (POOLSHIM_RECORD): counts the live blocks of each requested size at the peaks of the
 * process. Used to choose size classes for a program.
 *
 * While it is on, threads do not take the fast paths: malloc and free lead here, where a block is
 * counted, and served as in the plain mode. Free streaks, guarded samples and hardening are off.
 * While recording is off, nothing here is called.
 *
 * Sizes above every size class are summed up only. The requested size of a block follows from its
 * class if the class serves one size only; otherwise it is stored in a shadow byte
 * (record_sizes.h). Counts are in shards, of which a thread uses one, by its number: so few threads
 * add to the same words. A block may be freed by a thread of another shard.
 *
 *   live of a size == sum over all shards of x_made - x_freed
 *
 * Live bytes of the process are known to 1/128, or 64 KiB, because a shard withholds unpublished
 * changes. Each free checks for a new peak before it counts its block (record_peak.h). It may
 * compare with live bytes of the shard's last publication; a free above the classes publishes.
 *
 * Callers: the entry points and hooks of this mode (modes.c); the shim reads through record_peak.h.
 * Any thread; locks only through record_peak.c.
 */
#ifndef PS_RECORD_RECORD_H
#define PS_RECORD_RECORD_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_partition;
struct ps_partition_request;

#define PS_RECORD_SHARDS 64

/* Requests are grouped as size classes can group them: number 1 is up to 8 bytes, 2 up to 16, and
 * one more for each further 16 bytes; 0 means none. */
#define PS_RECORD_SIZES (PS_CLASS_BYTES_LIMIT / 16 + 2)

static inline size_t ps_record_number_of(size_t bytes) {
    bytes += bytes == 0;
    return ((bytes + 15) >> 4) + (bytes > 8);
}

static inline size_t ps_record_bytes_of(size_t number) {
    return number == 1 ? 8 : (number - 1) * 16;
}

/* Any thread adds. */
struct ps_record_count {
    uint64_t x_made;
    uint64_t x_freed;
};

/* The counts of a shard. */
struct ps_tally {
    PS_ALIGNED(PS_CACHE_LINE)
    uint64_t x_level;       /* live bytes since the last publication, which may be below 0 */
    uint64_t x_top;         /* level at which a free takes a snapshot */
    uint64_t x_grain;       /* change at which it is published; less than the least: the least */
    uint64_t x_large;       /* requests above the classes */
    uint64_t x_large_bytes; /* their usable bytes */
    PS_ALIGNED(PS_CACHE_LINE) struct ps_record_count sizes[PS_RECORD_SIZES];
};

/* PS_RECORD_SHARDS of them. Constant after the start. */
extern PS_HIDDEN struct ps_tally *ps_record_shards;

/* Written once, at start. */
extern PS_HIDDEN bool ps_record_x_on;

/* relaxed: written at the start, before any thread has a block. */
static inline bool ps_record_is_on(void) { return ps_load_relaxed(&ps_record_x_on); }

/* ---- hooks and entry points: see mode.h ---- */

bool ps_record_start(const struct ps_config *config);
void *ps_record_alloc(size_t bytes);
void *ps_record_zalloc(size_t bytes);
void *ps_record_alloc_aligned(size_t bytes, size_t align);
void *ps_record_alloc_in(struct ps_partition *partition,
                         const struct ps_partition_request *request);
void ps_record_free(void *block);
void *ps_record_resize(void *block, size_t bytes);

#endif
