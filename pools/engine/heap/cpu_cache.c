/* SPDX-License-Identifier: MIT */
/*
 * See cpu_cache.h.
 */
#include "pools/engine/heap/cpu_cache.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/cpu_first.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"

#define LIMIT_FIRST 4 /* blocks of a class, at its first demand */

struct ps_cpu_cache *ps_cpu_x_caches[PS_CPU_CACHES];
uint32_t ps_cpu_x_end;
bool ps_cpu_may_be_first;

void ps_cpu_cache_start(void) { ps_cpu_may_be_first = ps_rseq_is_on(); }

/* relaxed, all: a cache may be found before. */
static void raise_end(uint32_t end) {
    uint32_t present = ps_load_relaxed(&ps_cpu_x_end);
    while (present < end && !ps_cas_weak_relaxed(&ps_cpu_x_end, &present, end)) {
    } /* ends: it grows */
}

/* A cache that another thread makes at the same moment is lost, with the pages that it has not
 * touched. */
static PS_COLD void make(size_t index) {
    struct ps_cpu_cache *none = NULL;
    struct ps_cpu_cache *cache = index < PS_CPU_CACHES ? ps_metadata_take(sizeof *cache) : NULL;
    if (cache != NULL) {
        ps_page_map_use_tags();
        cache->changing = PS_CPU_NO_CLASS;
        cache->node = ps_node_here();
        /* release: makes the node and the zeroes visible. */
        (void)ps_cas_strong_acq_rel(&ps_cpu_x_caches[index], &none, cache);
        raise_end((uint32_t)index + 1);
    }
}

/* ---- put and take ---- */

static inline bool put_here(uint32_t tag, void *block) {
    return ps_rseq_is_on() ? ps_cpu_cache_put_here(tag, block, true)
                           : ps_cpu_cache_put_here(tag, block, false);
}

/* A hint: the key changes at any time. */
static inline bool has_running_owner(const struct ps_span *span) {
    uintptr_t key = ps_load_relaxed(&span->x_owner); /* relaxed, both: see above */
    return key > PS_KEY_ORPHAN && ps_load_relaxed(&ps_heap_of_key(key)->x_state) != PS_HEAP_PARKED;
}

bool ps_cpu_cache_put(struct ps_heap *heap, const struct ps_span *span, void *block) {
    if (!has_running_owner(span) || !put_here(ps_span_tag(span), block)) {
        return false;
    }
    ps_owner_add(&heap->x_remote_frees, 1);
    return true;
}

void *ps_cpu_cache_take(uint32_t class_index) {
    return ps_rseq_is_on() ? ps_cpu_cache_take_here(class_index, true)
                           : ps_cpu_cache_take_here(class_index, false);
}

/* The most blocks of a class that a cache has. */
static inline size_t most_of(size_t class_index) {
    return ps_min(PS_CPU_CACHE_BYTES / ps_size_classes[class_index].block_bytes,
                  PS_CPU_CACHE_BLOCKS);
}

/* Lets the cache of this processor have more of the class. False: it may have the most already. */
static bool raise_limit(size_t class_index) {
    struct ps_cpu_cache *cache = ps_cpu_cache_at(ps_os_cpu());
    size_t limit = cache != NULL ? ps_cpu_cache_limit(cache, class_index) : 0;
    size_t most = most_of(class_index);
    if (cache == NULL || limit == most) {
        return false;
    }
    ps_cpu_cache_set_limit(cache, class_index, ps_min(ps_max(limit * 2, LIMIT_FIRST), most));
    return true;
}

bool ps_cpu_cache_put_first(const struct ps_span *span, void *block) {
    uint32_t tag = ps_span_tag(span);
    if (ps_page_map_tag(block) != tag) { /* otherwise other processors would lose the line */
        ps_page_map_set_tag(block, tag);
    }
    return put_here(tag, block) || (raise_limit(span->class_index) && put_here(tag, block));
}

void ps_cpu_cache_ask(uint32_t class_index) {
    if (!ps_background_is_crowded()) {
        return;
    }
    size_t index = ps_os_cpu();
    if (ps_cpu_cache_at(index) == NULL) {
        make(index);
    }
    (void)raise_limit(class_index);
    ps_cpu_cache_choose();
}

size_t ps_cpu_cache_blocks(uint32_t class_index) {
    size_t blocks = 0;
    for (size_t i = 0; i < ps_cpu_cache_end(); i++) {
        const struct ps_cpu_cache *cache = ps_cpu_cache_at(i);
        blocks += cache != NULL ? ps_cpu_cache_count(cache, class_index) : 0;
    }
    return blocks;
}

uint64_t ps_cpu_cache_takes(void) {
    uint64_t takes = 0;
    for (size_t i = 0; i < ps_cpu_cache_end(); i++) {
        const struct ps_cpu_cache *cache = ps_cpu_cache_at(i);
        for (size_t k = 0; cache != NULL && k < ps_size_class_count; k++) {
            takes += ps_cpu_cache_state(cache, k) >> PS_CPU_STATE_TAKES_SHIFT;
        }
    }
    return takes;
}

void ps_cpu_cache_choose(void) {
    bool is_first =
        ps_cpu_may_be_first && ps_mode.hook.may_cache_first && ps_background_is_crowded();
    if (is_first != ps_thread_caches_first(&ps_thread)) {
        ps_registry_set_caches_first(is_first);
    }
}
