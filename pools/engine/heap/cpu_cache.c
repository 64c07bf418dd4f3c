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

_Static_assert(PS_CPU_CACHES <= PS_NODE_CPUS, "make reads the node of each");

struct ps_cpu_cache *ps_cpu_x_caches[PS_CPU_CACHES];
uint32_t ps_cpu_x_end;
bool ps_cpu_may_be_first;

PS_AT_START void ps_cpu_cache_start(void) { ps_cpu_may_be_first = ps_rseq_is_on(); }

/* relaxed, all: a cache may be found before. */
static void raise_end(uint32_t end) {
    uint32_t present = ps_load_relaxed(&ps_cpu_x_end);
    while (present < end && !ps_cas_weak_relaxed(&ps_cpu_x_end, &present, end)) {
    } /* ends: it grows */
}

/* If two threads make one at the same moment, one cache is lost, with one touched page. */
static PS_COLD void make(size_t index) {
    size_t bytes = ps_round_up(sizeof(struct ps_cpu_cache), PS_GRANULE_BYTES);
    struct ps_cpu_cache *none = NULL;
    struct ps_cpu_cache *cache = index < PS_CPU_CACHES ? ps_metadata_map(bytes) : NULL;
    if (cache != NULL) {
        cache->changing = PS_CPU_NO_CLASS;
        cache->node = ps_load_relaxed(&ps_node_x_of_cpu[index]); /* relaxed: of one processor */
        /* release: makes the node, the zeroes and the tags visible. */
        (void)ps_cas_strong_acq_rel(&ps_cpu_x_caches[index], &none, cache);
        raise_end((uint32_t)index + 1);
    }
}

/* ---- put and take ---- */

/* tag: see ps_cpu_cache_put_into. */
static inline bool put(uint32_t tag, void *block) {
    uint32_t index = ps_os_cpu();
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    if (cache == NULL) {
        return false;
    }
    return ps_rseq_is_on() ? ps_cpu_cache_put_into(cache, index, tag, block, true)
                           : ps_cpu_cache_put_into(cache, index, tag, block, false);
}

/* A hint: the key changes at any time. */
static inline bool has_running_owner(const struct ps_span *span) {
    uintptr_t key = ps_load_relaxed(&span->x_owner); /* relaxed, both: see above */
    return key > PS_KEY_ORPHAN && ps_load_relaxed(&ps_heap_of_key(key)->x_state) != PS_HEAP_PARKED;
}

bool ps_cpu_cache_put(struct ps_heap *heap, const struct ps_span *span, void *block) {
    if (!has_running_owner(span) || !put(ps_span_tag(span), block)) {
        return false;
    }
    ps_owner_add(&heap->x_remote_frees, 1);
    return true;
}

PS_AT_START void *ps_cpu_cache_take(uint32_t class_index) {
    return ps_rseq_is_on() ? ps_cpu_cache_take_here(class_index, true)
                           : ps_cpu_cache_take_here(class_index, false);
}

static inline uint32_t taken_of(const struct ps_cpu_cache *cache, size_t class_index) {
    return (uint32_t)(ps_cpu_cache_state(cache, class_index) >> PS_CPU_STATE_TAKES_SHIFT);
}

/* The most blocks of a class that a cache may have. */
static size_t most_of(const struct ps_cpu_cache *cache, size_t class_index) {
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    size_t usual = ps_min(PS_CPU_CACHE_BYTES / block_bytes, PS_CPU_CACHE_BLOCKS);
    if (!ps_background_is_crowded()) {
        return usual;
    }
    size_t busy = ps_min(PS_CPU_CACHE_BUSY_BYTES / block_bytes, PS_CPU_CACHE_BLOCKS);
    /* relaxed: either round's number is one. */
    uint32_t taken = taken_of(cache, class_index) - ps_load_relaxed(&cache->x_taken[class_index]);
    return ps_min(ps_max(usual, taken / PS_CPU_CACHE_TAKES_A_BLOCK), busy);
}

void ps_cpu_cache_judge(struct ps_cpu_cache *cache, size_t class_index) {
    size_t most = most_of(cache, class_index);
    if (ps_cpu_cache_limit(cache, class_index) > most) {
        ps_cpu_cache_set_limit(cache, class_index, most);
    }
    /* relaxed: as in most_of. */
    ps_store_relaxed(&cache->x_taken[class_index], taken_of(cache, class_index));
}

/* Lets a cache have more of a class. False: it may have the most already. */
static bool raise_limit(struct ps_cpu_cache *cache, size_t class_index) {
    size_t limit = ps_cpu_cache_limit(cache, class_index);
    size_t most = most_of(cache, class_index);
    if (limit >= most) {
        return false;
    }
    ps_cpu_cache_set_limit(cache, class_index, ps_min(ps_max(limit * 2, LIMIT_FIRST), most));
    return true;
}

/* True if a cache may have one more block of a class. */
static bool make_room(struct ps_cpu_cache *cache, size_t class_index) {
    return ps_cpu_cache_count(cache, class_index) < ps_cpu_cache_limit(cache, class_index) ||
           raise_limit(cache, class_index);
}

/* Tags the granule of a block of the span. */
static void set_tag(const struct ps_span *span, const void *block) {
    uint32_t tag = ps_span_tag(span);
    if (ps_page_map_tag(block) != tag) { /* otherwise other processors would lose the line */
        ps_page_map_set_tag(block, tag);
    }
}

bool ps_cpu_cache_put_first(const struct ps_span *span, void *block) {
    uint32_t index = ps_os_cpu();
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    if (cache == NULL) {
        make(index);
        return false;
    }
    set_tag(span, block);
    return make_room(cache, span->class_index) && put(ps_span_tag(span), block);
}

bool ps_cpu_cache_fill(const struct ps_span *span, void *block) {
    uint32_t index = ps_os_cpu();
    size_t class_index = span->class_index;
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    if (cache == NULL || span->run.node != cache->node || !ps_retention_is_usual() ||
        !make_room(cache, class_index)) {
        return false;
    }
    set_tag(span, block);
    return ps_rseq_is_on() ? ps_cpu_cache_push(cache, index, class_index, block, true)
                           : ps_cpu_cache_push(cache, index, class_index, block, false);
}

PS_AT_START void ps_cpu_cache_ask(uint32_t class_index) {
    if (!ps_background_is_crowded()) {
        return;
    }
    uint32_t index = ps_os_cpu();
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    if (cache != NULL) {
        (void)raise_limit(cache, class_index);
    } else {
        make(index);
    }
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

PS_AT_START void ps_cpu_cache_choose(void) {
    bool is_first =
        ps_cpu_may_be_first && ps_mode.hook.may_cache_first && ps_background_is_crowded();
    if (is_first != ps_thread_caches_first(&ps_thread)) {
        ps_registry_set_caches_first(is_first);
    }
}
