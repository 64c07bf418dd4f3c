/* SPDX-License-Identifier: MIT */
/*
 * The caches of threads: start, the way to and from the depot, the end with the thread, fork.
 * Called by slice.c. No locks of its own; a cache is its thread's.
 */
#include "pools/common/debug.h"
#include "pools/slice/slice.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <pthread.h>

/* Room for nothing, and nothing in it. Never written. */
static struct ps_slice_cache empty;

__thread struct ps_slice_cache *ps_slice_here __attribute__((tls_model("initial-exec"))) = &empty;

/* The thread's cache, also in checked runs, where ps_slice_here is always &empty. */
static __thread struct ps_slice_cache *own_cache;
static __thread bool is_late; /* the thread's cache has ended, and none will be made again */

/* From the constructor on. Before it, and when the system has no key left, threads go without. */
static pthread_key_t exit_key;
static bool has_key;

static void cache_end(void *cache) {
    ps_slice_here = &empty;
    own_cache = NULL;
    is_late = true;
    ps_slice_cache_flush(cache);
    ps_pages_free(cache, sizeof(struct ps_slice_cache));
}

/* Nothing is locked for a fork: see os/lock.h. */
static void fork_child(void) {
    ps_slice_live_fork_child();
    ps_slice_depot_fork_child();
}

/* At load, not at the first slice: ps_slice_stats and ps_slice_trim lock the depot before, and with
 * PS_DEBUG=malloc there is no first slice. A fork beside the first slice would find locks of
 * another thread and no handler that repairs them. */
__attribute__((constructor(102))) static void library_loaded(void) {
    (void)pthread_atfork(NULL, NULL, fork_child);
    has_key = pthread_key_create(&exit_key, cache_end) == 0;
}

static PS_COLD struct ps_slice_cache *cache_create(void) {
    struct ps_slice_cache *cache =
        has_key ? ps_pages_zalloc(sizeof(struct ps_slice_cache), 0) : NULL;
    if (cache == NULL) {
        return NULL;
    }
    if (pthread_setspecific(exit_key, cache) != 0) {
        ps_pages_free(cache, sizeof *cache);
        return NULL;
    }
    for (size_t class_index = 0; class_index < PS_SLICE_BIN_COUNT; class_index++) {
        cache->bins[class_index].bytes = slice_class_bytes(class_index);
        cache->bins[class_index].limit = slice_class_limit(class_index);
        cache->bins[class_index].room = slice_class_limit(class_index);
    }
    own_cache = cache;
    if (!ps_debug_is_check() && !ps_debug_is_malloc()) {
        ps_slice_here = cache;
    }
    return cache;
}

struct ps_slice_cache *ps_slice_cache_get(void) {
    if (PS_LIKELY(own_cache != NULL)) {
        return own_cache;
    }
    return is_late ? NULL : cache_create();
}

struct ps_slice_cache *ps_slice_cache_peek(void) { return own_cache; }

void *ps_slice_cache_alloc(struct ps_slice_cache *cache, size_t class_index) {
    struct ps_slice_bin *bin = &cache->bins[class_index];
    if (bin->first == NULL && bin->virgin == bin->end) {
        if (bin->second != NULL) {
            bin->first = bin->second;
            bin->room = 0;
            bin->second = NULL;
        } else {
            struct slice_batch batch = ps_slice_depot_take(class_index, bin->limit);
            bin->first = batch.first;
            bin->room = bin->limit - (uint32_t)batch.count;
            bin->virgin = batch.virgin;
            bin->end = batch.end;
        }
    }
    struct ps_slice_link *slice = bin->first;
    if (slice != NULL) {
        bin->first = slice->next;
        bin->room++;
        return slice;
    }
    if (bin->virgin == bin->end) {
        return NULL;
    }
    char *virgin = bin->virgin;
    bin->virgin += bin->bytes;
    return virgin;
}

void ps_slice_cache_free(struct ps_slice_cache *cache, size_t class_index, void *slice) {
    struct ps_slice_bin *bin = &cache->bins[class_index];
    if (bin->room == 0) {
        if (bin->second != NULL) {
            ps_slice_depot_give(class_index, bin->second);
        }
        bin->second = bin->first;
        bin->first = NULL;
        bin->room = bin->limit;
    }
    struct ps_slice_link *link = slice;
    link->next = bin->first;
    bin->first = link;
    bin->room--;
}

void ps_slice_cache_flush(struct ps_slice_cache *cache) {
    for (size_t class_index = 0; class_index < PS_SLICE_BIN_COUNT; class_index++) {
        struct ps_slice_bin *bin = &cache->bins[class_index];
        struct ps_slice_link *first = bin->first;
        struct ps_slice_link *second = bin->second;
        char *virgin = bin->virgin;
        bin->first = NULL;
        bin->second = NULL;
        bin->virgin = bin->end;
        if (first != NULL && bin->room == 0) {
            ps_slice_depot_give(class_index, first);
        } else if (first != NULL) {
            ps_slice_depot_put_list(class_index, first);
        }
        bin->room = bin->limit;
        if (second != NULL) {
            ps_slice_depot_give(class_index, second);
        }
        ps_slice_depot_put_window(class_index, virgin, bin->end);
    }
}
