/* SPDX-License-Identifier: MIT */
/*
 * See cpu_cache.h. Locks: one per cache, only tried; nothing is called while one is held.
 */
#include "pools/engine/heap/cpu_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/cpu_medium.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/size_class.h"
#include "pools/engine/small/span.h"

#include <string.h>

#define LIMIT_FIRST 4     /* blocks of a class, at its first demand */
#define UNLINKED 4        /* newest blocks of a class that are not linked yet */
#define FOREIGN_SHARE 4   /* caches come first where every fourth block, or more, was another's */
#define CHOICE_BLOCKS 256 /* taken between two choices */
#define BEHIND_MS 2       /* between two steps of a round, where nothing else reads the clock */

struct ps_cpu_cache *ps_cpu_x_caches[PS_CPU_CACHES];

/* The round in which the caches return unused blocks. */
static uint64_t x_due_ms;     /* when it begins */
static uint32_t x_next;       /* the cache that comes next */
static uint32_t x_was_filled; /* a cache has kept blocks in this round */
static uint32_t x_is_filled;  /* one did in the last round */

static inline size_t count_of(const struct ps_cpu_cache *cache, size_t class_index) {
    return ps_load_relaxed(&cache->x_count[class_index]); /* relaxed: a hint without the lock */
}

static inline void set_count(struct ps_cpu_cache *cache, size_t class_index, size_t count) {
    /* relaxed: the lock orders it; a reader without the lock takes a hint. */
    ps_store_relaxed(&cache->x_count[class_index], (uint8_t)count);
}

static inline size_t limit_of(const struct ps_cpu_cache *cache, size_t class_index) {
    return ps_load_relaxed(&cache->x_limit[class_index]); /* relaxed: either value is one of it */
}

static inline void set_limit(struct ps_cpu_cache *cache, size_t class_index, size_t limit) {
    /* relaxed: as in limit_of. */
    ps_store_relaxed(&cache->x_limit[class_index], (uint8_t)limit);
}

/* The most blocks of a class that a cache holds. */
static inline size_t most_of(size_t class_index) {
    return ps_min(PS_CPU_CACHE_BYTES / ps_size_classes[class_index].block_bytes,
                  PS_CPU_CACHE_BLOCKS);
}

/* ---- the caches ---- */

static inline struct ps_cpu_cache *cache_at(size_t index) {
    /* acquire: pairs with make. */
    return ps_load_acquire(&ps_cpu_x_caches[index]);
}

/* A cache that another thread makes at the same moment is lost, with the pages that it has not
 * touched. */
static PS_COLD void make(size_t index) {
    struct ps_cpu_cache *none = NULL;
    struct ps_cpu_cache *cache = ps_metadata_take(sizeof *cache);
    if (cache != NULL) {
        /* release: makes the zeroes visible. */
        (void)ps_cas_strong_acq_rel(&ps_cpu_x_caches[index], &none, cache);
    }
}

/* ---- put and take ---- */

/* A hint: the key changes at any time. */
static inline bool has_running_owner(const struct ps_span *span) {
    uintptr_t key = ps_load_relaxed(&span->x_owner); /* relaxed, both: see above */
    return key > PS_KEY_ORPHAN && ps_load_relaxed(&ps_heap_of_key(key)->x_state) != PS_HEAP_PARKED;
}

/* Links a cached block, unless it is on a list: a second free. */
static inline void link_block(void *block) {
    struct ps_span *span = ps_span_at(block);
    uintptr_t salt = ps_load_relaxed(&span->salt); /* relaxed: constant while the block is out */
    if (PS_UNLIKELY(ps_link_is_near(block, ps_link_of(block, salt)))) {
        ps_misuse_free(span, block);
    }
    ps_link_write(block, ps_span_list_end(span), salt);
}

/* A second free of a block that is not linked yet. Holder only. */
PS_INLINE void check_unlinked(const struct ps_cpu_cache *cache, const struct ps_span *span,
                              const void *block) {
    size_t class_index = span->class_index;
    size_t count = count_of(cache, class_index);
    for (size_t i = cache->linked[class_index]; i < count; i++) {
        if (PS_UNLIKELY(cache->blocks[class_index][i] == block)) {
            ps_misuse_free(span, block);
        }
    }
}

/* Adds the newest block of a class, and links the one that is no longer among the newest: its line
 * has arrived by now. Holder only. */
PS_INLINE void add_newest(struct ps_cpu_cache *cache, size_t class_index, void *block) {
    size_t count = count_of(cache, class_index);
    size_t linked = cache->linked[class_index];
    __builtin_prefetch(block, 1);
    cache->blocks[class_index][count] = block;
    set_count(cache, class_index, count + 1);
    if (count - linked == UNLINKED) {
        link_block(cache->blocks[class_index][linked]);
        cache->linked[class_index] = (uint8_t)(linked + 1);
    }
}

/* True if blocks of the span may wait on this processor. */
static inline bool may_wait(const struct ps_span *span) {
    return span->run.node == ps_node_here() && ps_retention_is_usual();
}

/* Returns whether the block is in the cache. */
PS_INLINE bool put(struct ps_cpu_cache *cache, struct ps_span *span, void *block) {
    size_t class_index = span->class_index;
    if (!may_wait(span) || !ps_cpu_lock_enter(&cache->lock, class_index)) {
        return false;
    }
    check_unlinked(cache, span, block);
    bool has_room = count_of(cache, class_index) < limit_of(cache, class_index);
    if (PS_LIKELY(has_room)) {
        add_newest(cache, class_index, block);
    }
    ps_cpu_lock_leave(&cache->lock);
    return has_room;
}

bool ps_cpu_cache_put(struct ps_heap *heap, struct ps_span *span, void *block) {
    struct ps_cpu_cache *cache = cache_at(ps_cpu_index());
    if (cache == NULL || limit_of(cache, span->class_index) == 0 || !has_running_owner(span) ||
        !put(cache, span, block)) {
        return false;
    }
    ps_owner_add(&heap->x_remote_frees, 1);
    return true;
}

bool ps_cpu_cache_put_first(struct ps_heap *heap, struct ps_span *span, void *block,
                            uintptr_t owner_key) {
    struct ps_cpu_cache *cache = cache_at(ps_cpu_index());
    if (cache == NULL) {
        return false;
    }
    size_t class_index = span->class_index;
    if (count_of(cache, class_index) == limit_of(cache, class_index)) {
        set_limit(cache, class_index, most_of(class_index));
    }
    if (!put(cache, span, block)) {
        return false;
    }
    if (owner_key != ps_heap_key(heap)) {
        ps_owner_add(&heap->x_remote_frees, 1);
    }
    return true;
}

void ps_cpu_cache_ask(struct ps_heap *heap, uint32_t class_index) {
    if (!ps_background_is_crowded()) {
        return;
    }
    size_t index = ps_cpu_index();
    struct ps_cpu_cache *cache = cache_at(index);
    if (cache == NULL) {
        if (heap->x_remote_frees != 0) { /* this thread frees others' blocks */
            make(index);
        }
        return;
    }
    size_t limit = ps_max(limit_of(cache, class_index) * 2, LIMIT_FIRST);
    set_limit(cache, class_index, ps_min(limit, most_of(class_index)));
    ps_cpu_cache_choose(heap);
}

/* NULL: the cache is empty. is_linked: whether the block is. Holder only. */
PS_INLINE void *take_newest(struct ps_cpu_cache *cache, size_t class_index, bool *is_linked) {
    size_t count = count_of(cache, class_index);
    if (count == 0) {
        return NULL;
    }
    void **newest = &cache->blocks[class_index][count - 1];
    if (count > 1) {
        __builtin_prefetch(newest[-1], 1);
    }
    set_count(cache, class_index, count - 1);
    if (count - 1 < cache->low[class_index]) {
        cache->low[class_index] = (uint8_t)(count - 1);
    }
    *is_linked = count - 1 < cache->linked[class_index];
    if (*is_linked) {
        cache->linked[class_index] = (uint8_t)(count - 1);
    }
    return *newest;
}

void *ps_cpu_cache_take(struct ps_heap *heap, uint32_t class_index) {
    struct ps_cpu_cache *cache = cache_at(ps_cpu_index());
    if (cache == NULL || count_of(cache, class_index) == 0 ||
        !ps_cpu_lock_enter(&cache->lock, class_index)) {
        return NULL;
    }
    bool is_linked;
    void *block = take_newest(cache, class_index, &is_linked);
    ps_cpu_lock_leave(&cache->lock);
    if (block != NULL) {
        if (is_linked) {
            ps_span_check_waiting(ps_span_at(block), block);
            ps_link_clear(block);
        }
        /* Not in the bin: its line is not needed otherwise. */
        ps_owner_add(&heap->x_cache_takes, 1);
    }
    return block;
}

/* ---- the choice ---- */

/* Blocks that the heap's owner has taken, without the last few. */
static uint64_t taken_of(const struct ps_heap *heap) {
    uint64_t taken = heap->x_cache_takes;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        taken += heap->bins[i].x_taken;
    }
    return taken;
}

void ps_cpu_cache_choose(struct ps_heap *heap) {
    bool may_be_first = ps_mode.hook.may_cache_first && ps_background_is_crowded();
    uint64_t taken = taken_of(heap) - heap->taken_before;
    uint64_t frees = heap->x_remote_frees - heap->frees_before;
    if (may_be_first && taken < CHOICE_BLOCKS) {
        return;
    }
    heap->taken_before += taken;
    heap->frees_before += frees;
    bool is_first = may_be_first && frees * FOREIGN_SHARE >= taken;
    if (is_first != (ps_thread.caches_first != 0)) {
        ps_registry_set_caches_first(is_first);
    }
}

/* ---- return ---- */

/* Takes the oldest blocks out of the cache, linked: those that were not used since the last time,
 * or all. Returns how many. */
static size_t take_idle(struct ps_cpu_cache *cache, size_t class_index, bool is_all, void **taken) {
    if (count_of(cache, class_index) == 0 || !ps_cpu_lock_enter(&cache->lock, class_index)) {
        return 0;
    }
    void **blocks = cache->blocks[class_index];
    size_t count = count_of(cache, class_index);
    size_t idle = is_all ? count : ps_min(count, cache->low[class_index]);
    size_t linked = cache->linked[class_index];
    for (; linked < idle; linked++) {
        link_block(blocks[linked]);
    }
    cache->linked[class_index] = (uint8_t)(linked - idle);
    memcpy(taken, blocks, idle * sizeof *taken);
    memmove(blocks, blocks + idle, (count - idle) * sizeof *blocks);
    set_count(cache, class_index, count - idle);
    cache->low[class_index] = (uint8_t)(count - idle);
    if (idle == count) {
        set_limit(cache, class_index, 0);
    }
    ps_cpu_lock_leave(&cache->lock);
    return idle;
}

static void return_blocks(struct ps_cpu_cache *cache, bool is_all, ps_cpu_cache_return *give) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        void *taken[PS_CPU_CACHE_BLOCKS];
        size_t count = take_idle(cache, i, is_all, taken);
        for (size_t k = 0; k < count; k++) {
            give(taken[k]);
        }
    }
}

static bool has_blocks(const struct ps_cpu_cache *cache) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        if (count_of(cache, i) != 0) {
            return true;
        }
    }
    return false;
}

/* Those of one processor. Returns whether it has any left. */
static bool return_at(size_t index, bool is_all, ps_cpu_cache_return *give) {
    struct ps_cpu_cache *cache = cache_at(index);
    bool is_filled = ps_cpu_medium_return(index, is_all);
    if (cache != NULL) {
        return_blocks(cache, is_all, give);
        is_filled |= has_blocks(cache);
    }
    return is_filled;
}

/* The next processor of a round whose caches hold or count anything; PS_CPU_CACHES: the round is
 * over. */
static size_t next_of_round(void) {
    for (;;) {                                      /* ends: x_next grows */
        size_t index = ps_add_relaxed(&x_next, 1u); /* relaxed: a cursor */
        if (index >= PS_CPU_CACHES) {
            return PS_CPU_CACHES;
        }
        const struct ps_cpu_cache *cache = cache_at(index);
        if ((cache != NULL && has_blocks(cache)) || ps_cpu_medium_is_used(index)) {
            return index;
        }
    }
}

uint32_t ps_cpu_cache_tick(uint64_t now_ms, ps_cpu_cache_return *give) {
    /* relaxed, all: two threads may share a round, or begin the next one early. */
    if (now_ms >= ps_load_relaxed(&x_due_ms)) {
        size_t index = next_of_round();
        if (index != PS_CPU_CACHES) {
            if (return_at(index, !ps_retention_is_usual(), give)) {
                ps_store_relaxed(&x_was_filled, 1u);
            }
            return BEHIND_MS;
        }
        ps_store_relaxed(&x_is_filled, ps_exchange_acquire(&x_was_filled, 0u));
        ps_store_relaxed(&x_due_ms, now_ms + ps_retention_interval_ms(PS_RETENTION_SCAN_MS));
        ps_store_relaxed(&x_next, 0u);
    }
    return ps_load_relaxed(&x_is_filled) != 0 ? PS_RETENTION_SCAN_MS / 4 : 0;
}

void ps_cpu_cache_drain(ps_cpu_cache_return *give) {
    for (size_t i = 0; i < PS_CPU_CACHES; i++) {
        (void)return_at(i, true, give);
    }
}

size_t ps_cpu_cache_blocks(uint32_t class_index) {
    size_t blocks = 0;
    for (size_t i = 0; i < PS_CPU_CACHES; i++) {
        const struct ps_cpu_cache *cache = cache_at(i);
        blocks += cache != NULL ? count_of(cache, class_index) : 0;
    }
    return blocks;
}

void ps_cpu_cache_fork_child(void) {
    for (size_t i = 0; i < PS_CPU_CACHES; i++) {
        struct ps_cpu_cache *cache = cache_at(i);
        if (cache != NULL && ps_cpu_lock_fork_child(&cache->lock)) {
            set_count(cache, cache->lock.changing, 0); /* blocks may stand there twice */
            cache->linked[cache->lock.changing] = 0;
        }
    }
    ps_cpu_medium_fork_child();
}
