/* SPDX-License-Identifier: MIT */
/*
 * Slices: the slow sides of slice.h, large sizes, PS_DEBUG. No locks of its own.
 */
#include "pools/slice/slice.h"

#include "pools/common/canary.h"
#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/engine/os/lock.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <poolshim/source.h>
#include <string.h>

#define ALIGN_MAX ((size_t)64 << 10)

/* The part of a free slice that is not poisoned in checked runs: its links. */
#define LINK_BYTES (2 * sizeof(void *))
#define FILL 0xdd

/* Without a cache: one at a time from the runs and back. */
static void *alloc_late(size_t class_index) {
    struct slice_batch batch = ps_slice_depot_take(class_index, 1);
    if (batch.virgin != batch.end) {
        size_t bytes = slice_class_bytes(class_index);
        ps_slice_depot_put_window(class_index, batch.virgin + bytes, batch.end);
        return batch.virgin;
    }
    return batch.first;
}

static void free_late(size_t class_index, void *slice) {
    struct ps_slice_link *link = slice;
    link->next = NULL;
    ps_slice_depot_put_list(class_index, link);
}

static void *alloc_block(size_t bytes) {
    if (bytes > PS_SLICE_MAX) {
        if (bytes > PTRDIFF_MAX) {
            errno = ENOMEM;
            return NULL;
        }
        return ps_chunk_pages(SLICE_FAMILY, NULL, bytes, 0);
    }
    size_t class_index = slice_class(bytes);
    struct ps_slice_cache *cache = ps_slice_cache_get();
    void *slice =
        cache != NULL ? ps_slice_cache_alloc(cache, class_index) : alloc_late(class_index);
    if (slice == NULL) {
        errno = ENOMEM;
    }
    return slice;
}

static void free_block(size_t bytes, void *slice) {
    if (bytes > PS_SLICE_MAX) {
        ps_pages_free(slice, bytes);
        return;
    }
    size_t class_index = slice_class(bytes);
    struct ps_slice_cache *cache = ps_slice_cache_get();
    if (cache != NULL) {
        ps_slice_cache_free(cache, class_index, slice);
    } else {
        free_late(class_index, slice);
    }
}

/* Bytes of a slice in checked runs, with the canary after it. */
static size_t checked_bytes(size_t bytes) {
    size_t least = bytes + PS_CANARY_TAIL;
    return least > PS_SLICE_MAX ? least : slice_class_bytes(slice_class(least));
}

static PS_COLD void *alloc_debug(size_t bytes) {
    if (ps_debug_is_malloc()) {
        struct ps_source *source = ps_source_malloc();
        return source->alloc(source, ps_max(bytes, 1), PS_ALIGN_DEFAULT);
    }
    if (bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    char *slice = alloc_block(bytes + PS_CANARY_TAIL);
    if (slice != NULL) {
        size_t whole = checked_bytes(bytes);
        ps_unpoison(slice, whole);
        ps_canary_fill(slice, bytes, slice + whole);
        ps_slice_live_add(slice, bytes);
    }
    return slice;
}

static PS_COLD void free_debug(size_t bytes, char *slice) {
    if (ps_debug_is_malloc()) {
        struct ps_source *source = ps_source_malloc();
        source->free(source, slice, ps_max(bytes, 1));
        return;
    }
    ps_slice_live_remove(slice, bytes);
    size_t whole = checked_bytes(bytes);
    ps_canary_verify_tail(slice, bytes, slice + whole,
                          (struct ps_canary_pool){SLICE_FAMILY, SLICE_FAMILY});
    ps_unpoison(slice, whole);
    if (whole <= PS_SLICE_MAX) {
        memset(slice, FILL, whole);
        ps_poison(slice + LINK_BYTES, whole - LINK_BYTES);
    }
    free_block(bytes + PS_CANARY_TAIL, slice);
}

static bool is_debug(void) { return ps_debug_is_malloc() || ps_debug_is_check(); }

void *ps_slice_alloc_slow(size_t bytes) {
    return PS_UNLIKELY(is_debug()) ? alloc_debug(bytes) : alloc_block(bytes);
}

void ps_slice_free_slow(size_t bytes, void *slice) {
    if (slice == NULL) {
        return;
    }
    int error = errno;
    if (PS_UNLIKELY(is_debug())) {
        free_debug(bytes, slice);
    } else {
        free_block(bytes, slice);
    }
    errno = error;
}

void *ps_slice_zalloc(size_t bytes) {
    if (bytes > PS_SLICE_MAX && bytes <= PTRDIFF_MAX && !is_debug()) {
        return ps_pages_zalloc(bytes, 0);
    }
    void *slice = ps_slice_alloc(bytes);
    return slice != NULL ? memset(slice, 0, bytes) : NULL;
}

void *ps_slice_copy(size_t bytes, const void *source) {
    void *slice = ps_slice_alloc(bytes);
    if (slice != NULL && bytes > 0) {
        memcpy(slice, source, bytes);
    }
    return slice;
}

void ps_slice_free_chain(size_t bytes, void *first, size_t next_offset) {
    while (first != NULL) {
        void *next = NULL;
        memcpy(&next, (char *)first + next_offset, sizeof next);
        ps_slice_free(bytes, first);
        first = next;
    }
}

/* The slice lies in a longer one, whose address is stored before it. */
void *ps_slice_alloc_aligned(size_t bytes, size_t align) {
    if (!ps_is_power_of_two(align) || align > ALIGN_MAX) {
        errno = EINVAL;
        return NULL;
    }
    if (align <= PS_ALIGN_DEFAULT) {
        return ps_slice_alloc(bytes);
    }
    if (bytes > PTRDIFF_MAX - align) {
        errno = ENOMEM;
        return NULL;
    }
    char *whole = ps_slice_alloc(bytes + align);
    if (whole == NULL) {
        return NULL;
    }
    size_t skip = align - (uintptr_t)whole % align;
    memcpy(whole + skip - sizeof whole, &whole, sizeof whole);
    return whole + skip;
}

void ps_slice_free_aligned(size_t bytes, size_t align, void *slice) {
    if (align <= PS_ALIGN_DEFAULT || slice == NULL) {
        ps_slice_free(bytes, slice);
        return;
    }
    char *whole = NULL;
    memcpy(&whole, (char *)slice - sizeof whole, sizeof whole);
    ps_slice_free(bytes + align, whole);
}

/* The total is computed twice, not after each list: it walks all runs. */
size_t ps_slice_trim_to(size_t keep_bytes) {
    struct ps_slice_stats before;
    struct ps_slice_stats now;
    ps_slice_stats(&before);
    if (before.depot_bytes + before.cache_bytes <= keep_bytes) {
        return 0;
    }
    struct ps_slice_cache *cache = ps_slice_cache_peek();
    if (cache != NULL) {
        ps_slice_cache_flush(cache);
    }
    ps_slice_stats(&now);
    size_t excess_bytes = now.depot_bytes - ps_min(now.depot_bytes, keep_bytes);
    for (size_t class_index = 0; class_index < PS_SLICE_BIN_COUNT && excess_bytes > 0;
         class_index++) {
        excess_bytes -= ps_min(ps_slice_depot_trim(class_index, excess_bytes), excess_bytes);
    }
    ps_slice_stats(&now);
    return before.run_bytes - ps_min(now.run_bytes, before.run_bytes);
}

bool ps_slice_trim(void) { return ps_slice_trim_to(0) != 0; }

void ps_slice_stats(struct ps_slice_stats *stats) {
    memset(stats, 0, sizeof *stats);
    const struct ps_slice_cache *cache = ps_slice_cache_peek();
    if (cache == NULL) {
        ps_lock_watch_forks(); /* the page layer does not know of this thread */
    }
    ps_slice_depot_stats(stats);
    for (size_t index = 0; cache != NULL && index < PS_SLICE_BIN_COUNT; index++) {
        const struct ps_slice_bin *bin = &cache->bins[index];
        size_t count = bin->limit - bin->room + (bin->second != NULL ? bin->limit : 0);
        stats->cache_bytes += count * bin->bytes + (size_t)(bin->end - bin->virgin);
    }
}
