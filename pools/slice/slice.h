/* SPDX-License-Identifier: MIT */
/*
 * Slices, within: size classes, the depot with its runs, the caches of threads, the table of live
 * slices of checked runs. slice.c calls all of it; cache.c calls depot.c, which calls pages.h.
 *
 * For each class: slices of all runs == allocated + in caches (lists, windows) + in the depot
 * (magazines) + free in their runs (list, virgin part).
 */
#ifndef PS_SLICE_SLICE_H
#define PS_SLICE_SLICE_H

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/slice.h>

#define SLICE_FAMILY "slices"
#define SLICE_RUN_BYTES ((size_t)64 << 10)

static inline size_t slice_class(size_t bytes) {
    return bytes <= PS_SLICE_INLINE_MAX
               ? (bytes + 15) / 16
               : PS_SLICE_INLINE_MAX / 16 + (bytes - PS_SLICE_INLINE_MAX + 255) / 256;
}

static inline size_t slice_class_bytes(size_t class_index) {
    size_t small = PS_SLICE_INLINE_MAX / 16;
    return class_index <= small ? ps_max(class_index, 1) * 16
                                : PS_SLICE_INLINE_MAX + (class_index - small) * 256;
}

/* Slices of a full list. */
static inline uint32_t slice_class_limit(size_t class_index) {
    size_t fit = ((size_t)16 << 10) / slice_class_bytes(class_index);
    return (uint32_t)ps_min(ps_max(fit, 8), 128);
}

/*
 * A transfer from the depot to a cache: a list of `count` slices, or a window of virgin ones, or
 * nothing when both are empty.
 */
struct slice_batch {
    struct ps_slice_link *first;
    size_t count;
    char *virgin;
    char *end;
};

/* Full lists come and go whole. */
struct slice_batch ps_slice_depot_take(size_t class_index, size_t least);
void ps_slice_depot_give(size_t class_index, struct ps_slice_link *full);

/* Slices back to their runs: a list of any length, a window. */
void ps_slice_depot_put_list(size_t class_index, struct ps_slice_link *first);
void ps_slice_depot_put_window(size_t class_index, char *virgin, const char *end);

/* Takes full lists of a class apart until it has released runs with excess_bytes of slices, or no
 * list is left. Returns the bytes of slices of these runs. */
size_t ps_slice_depot_trim(size_t class_index, size_t excess_bytes);
void ps_slice_depot_stats(struct ps_slice_stats *stats);
/* In the child of a fork, by its only thread. */
void ps_slice_depot_fork_child(void);

/* The calling thread's cache, made if need be; NULL in threads that go without (they have ended,
 * or there is no memory). */
struct ps_slice_cache *ps_slice_cache_get(void);
void *ps_slice_cache_alloc(struct ps_slice_cache *cache, size_t class_index);
void ps_slice_cache_free(struct ps_slice_cache *cache, size_t class_index, void *slice);
/* Empties the calling thread's. True when a run went back to the page cache. */
void ps_slice_cache_flush(struct ps_slice_cache *cache);
/* As above, or NULL; makes none. */
struct ps_slice_cache *ps_slice_cache_peek(void);

/* Checked runs: notes a slice, and forgets it or aborts when it is none, or of another size. */
void ps_slice_live_add(const void *slice, size_t bytes);
void ps_slice_live_remove(const void *slice, size_t bytes);
/* In the child of a fork, by its only thread. */
void ps_slice_live_fork_child(void);

#endif
