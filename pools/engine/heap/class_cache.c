/* SPDX-License-Identifier: MIT */
/*
 * See class_cache.h.
 */
#include "pools/engine/heap/class_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/retention.h"

#include <string.h>

#define LIMIT_FIRST ((size_t)4) /* blocks of a class, at its first free */

uint32_t ps_class_cache_first_class;
bool ps_class_cache_is_on;

void ps_class_cache_start(void) {
    /* After the last class that serves requests of the fast path. */
    ps_class_cache_first_class = ps_size_class_of(PS_FEW_BYTES) + 1;
    ps_class_cache_is_on = ps_mode.hook.may_cache_first;
}

/* Raises the limit of a cache that may grow. */
static void raise(struct ps_class_cache *cache) {
    size_t blocks = cache->limit / PS_CLASS_CACHE_ONE;
    size_t limit = ps_max(blocks * 2, LIMIT_FIRST) * PS_CLASS_CACHE_ONE;
    cache->raised = (uint16_t)ps_class_cache_takes(cache);
    cache->limit = (uint16_t)ps_min(limit, cache->most);
}

bool ps_class_cache_has_room(struct ps_heap *heap, const struct ps_span *span) {
    if (!ps_class_cache_has_class(span->class_index) || span->run.node != ps_node_here() ||
        ps_alloc_counts_requests() || !ps_retention_is_usual()) {
        return false;
    }
    struct ps_class_cache *cache = &heap->class_caches[span->class_index];
    size_t most = ps_min(PS_CLASS_CACHE_BYTES / span->block_bytes, PS_CLASS_CACHE_BLOCKS);
    cache->most = (uint16_t)(most * PS_CLASS_CACHE_ONE);
    /* relaxed: the census reads a snapshot. */
    ps_store_relaxed(&heap->x_cached, heap->x_cached | (uint64_t)1 << span->class_index);
    if (PS_UNLIKELY(ps_node_last() != 0)) {
        return ps_class_cache_count(cache) < most;
    }
    if (ps_class_cache_is_full(cache, cache->x_state)) {
        raise(cache);
    }
    return true;
}

/* relaxed: others read a snapshot. */
static void set_count(struct ps_class_cache *cache, size_t count) {
    uint64_t takes = ps_class_cache_takes(cache) << PS_CLASS_CACHE_TAKES_SHIFT;
    ps_store_relaxed(&cache->x_state, takes | count * PS_CLASS_CACHE_ONE);
}

/* Returns the oldest blocks. */
static void return_oldest(struct ps_class_cache *cache, size_t count, void (*give)(void *block)) {
    size_t left = ps_class_cache_count(cache) - count;
    struct ps_class_cache_entry *entries = cache->entries;
    struct ps_class_cache_entry oldest[PS_CLASS_CACHE_BLOCKS];
    memcpy(oldest, entries, count * sizeof *oldest);
    set_count(cache, 0); /* for the child of a fork: no block is there twice */
    ps_fence_program_order();
    memmove(entries, entries + count, left * sizeof *entries);
    ps_fence_program_order();
    set_count(cache, left);
    for (size_t i = 0; i < count; i++) {
        give(oldest[i].block);
    }
}

/* The number of blocks that remain cached. taken: since the last return. */
static size_t stay(size_t present, size_t taken, enum ps_class_cache_part part) {
    if (part == PS_CLASS_CACHE_ALL || taken == 0) {
        return 0;
    }
    return part == PS_CLASS_CACHE_IDLE ? present : ps_min(taken, present);
}

static void return_some(struct ps_class_cache *cache, enum ps_class_cache_part part,
                        void (*give)(void *block)) {
    size_t present = ps_class_cache_count(cache);
    uint16_t taken = (uint16_t)ps_class_cache_takes(cache);
    size_t left = stay(present, (uint16_t)(taken - cache->taken), part);
    cache->taken = taken;
    bool keeps_room = left != 0 || (part == PS_CLASS_CACHE_IDLE && present == 0);
    if (!keeps_room || ps_node_last() != 0) {
        cache->limit = 0;
    }
    if (left != present) {
        return_oldest(cache, present - left, give);
    }
}

void ps_class_cache_return(struct ps_heap *heap, enum ps_class_cache_part part,
                           void (*give)(void *block)) {
    for (uint64_t left = heap->x_cached; left != 0; left &= left - 1) {
        struct ps_class_cache *cache = &heap->class_caches[__builtin_ctzll(left)];
        if (cache->limit != 0 || ps_class_cache_count(cache) != 0) {
            return_some(cache, part, give);
        }
    }
}

/* ---- forks ---- */

static struct ps_heap *x_next; /* heap to be examined; NULL: none, or a thread examines one */

/* relaxed: the child's only thread. */
void ps_class_cache_fork_child(struct ps_heap *first) { ps_store_relaxed(&x_next, first); }

bool ps_class_cache_return_dead(void (*give)(void *block)) {
    if (PS_LIKELY(ps_load_relaxed(&x_next) == NULL)) { /* relaxed: the exchange decides */
        return false;
    }
    /* acquire: pairs with the release below; the heaps before it are done. */
    struct ps_heap *heap = ps_exchange_acquire(&x_next, (struct ps_heap *)NULL);
    if (heap == NULL) {
        return false;
    }
    /* relaxed: DEAD was set before there was a second thread. */
    if (ps_load_relaxed(&heap->x_state) == PS_HEAP_DEAD) {
        ps_class_cache_return(heap, PS_CLASS_CACHE_ALL, give);
    }
    struct ps_heap *next = heap->next_heap; /* constant: heaps are added in front */
    ps_store_release(&x_next, next);        /* release: pairs with the exchange */
    return next != NULL;
}
