/* SPDX-License-Identifier: MIT */
/*
 * See cpu_medium.h.
 */
#include "pools/engine/heap/cpu_medium.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/medium_cache.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/retention.h"

#include <string.h>

struct ps_cpu_medium *ps_cpu_x_mediums[PS_CPU_MEDIUMS];

static inline struct ps_cpu_medium *cache_at(size_t index) {
    return ps_load_acquire(&ps_cpu_x_mediums[index]); /* acquire: pairs with make */
}

/* A cache that another thread makes at the same moment is lost. */
static PS_COLD void make(size_t index) {
    struct ps_cpu_medium *none = NULL;
    struct ps_cpu_medium *cache = ps_metadata_take(sizeof *cache);
    if (cache != NULL) {
        /* release: makes the zeroes visible. */
        (void)ps_cas_strong_acq_rel(&ps_cpu_x_mediums[index], &none, cache);
    }
}

/* The bin of a length of 1 to PS_CPU_MEDIUM_LONGEST pages. */
static inline size_t bin_of(size_t pages) {
    if (pages <= 16) {
        return pages - 1;
    }
    size_t shift = ps_log2(pages - 1) - 3; /* 1 to 32 pages, 2 to 64 */
    return 8 * shift + ((pages - 1) >> shift);
}

static inline size_t count_of(const struct ps_cpu_medium *cache, size_t bin) {
    return ps_load_relaxed(&cache->x_count[bin]); /* relaxed: a hint without the lock */
}

static inline void set_count(struct ps_cpu_medium *cache, size_t bin, size_t count) {
    ps_store_relaxed(&cache->x_count[bin], (uint8_t)count); /* relaxed: as in count_of */
}

static inline size_t pages_of(const struct ps_cpu_medium *cache) {
    return ps_load_relaxed(&cache->x_pages); /* relaxed: as in count_of */
}

static inline void set_pages(struct ps_cpu_medium *cache, size_t pages) {
    ps_store_relaxed(&cache->x_pages, (uint16_t)pages); /* relaxed: as in count_of */
}

/* ---- take and put ---- */

/* Counts a request. relaxed, all: without the lock some are not counted. */
static inline void count_ask(struct ps_cpu_medium *cache) {
    uint32_t asks = ps_load_relaxed(&cache->x_asks) + 1;
    size_t limit = ps_min(asks / PS_CPU_MEDIUM_ASKS_A_PAGE, PS_CPU_MEDIUM_PAGES);
    ps_store_relaxed(&cache->x_asks, asks);
    if (limit > ps_load_relaxed(&cache->x_limit)) {
        ps_store_relaxed(&cache->x_limit, (uint16_t)limit);
    }
}

/* Removes block i of a bin. Holder only. */
static ps_medium_block remove_at(struct ps_cpu_medium *cache, size_t bin, size_t i) {
    ps_medium_block *blocks = cache->blocks[bin];
    ps_medium_block block = blocks[i];
    size_t count = count_of(cache, bin) - 1;
    ps_cpu_lock_changes(&cache->lock, bin);
    memmove(&blocks[i], &blocks[i + 1], (count - i) * sizeof *blocks);
    set_count(cache, bin, count);
    set_pages(cache, pages_of(cache) - ps_medium_pages_of(block));
    if (count < cache->low[bin]) {
        cache->low[bin] = (uint8_t)count;
    }
    return block;
}

static ps_medium_block find(struct ps_cpu_medium *cache, size_t pages) {
    size_t last = bin_of(ps_min(pages + pages / 8, PS_CPU_MEDIUM_LONGEST));
    for (size_t bin = bin_of(pages); bin <= last; bin++) {
        for (size_t i = count_of(cache, bin); i-- > 0;) {
            if (ps_medium_suits(cache->blocks[bin][i], pages)) {
                return remove_at(cache, bin, i);
            }
        }
    }
    return 0;
}

ps_medium_block ps_cpu_medium_take(size_t index, size_t pages, bool may_make) {
    struct ps_cpu_medium *cache = cache_at(index);
    if (PS_UNLIKELY(cache == NULL)) {
        if (may_make) {
            make(index);
        }
        return 0;
    }
    if (pages > PS_CPU_MEDIUM_LONGEST) {
        return 0;
    }
    count_ask(cache);
    if (pages_of(cache) < pages || !ps_cpu_lock_enter(&cache->lock, 0)) {
        return 0;
    }
    ps_medium_block block = find(cache, pages);
    ps_cpu_lock_leave(&cache->lock);
    return block;
}

/* True if the block's memory is on this processor's node. */
static inline bool is_near(ps_medium_block block) {
    return PS_LIKELY(ps_node_last() == 0) || ps_medium_node_of(block) == ps_node_here();
}

/* Returns false if there is no room, or the block is of another node. Holder only. */
static bool add(struct ps_cpu_medium *cache, ps_medium_block block, size_t limit) {
    size_t pages = ps_medium_pages_of(block);
    if (pages > PS_CPU_MEDIUM_LONGEST || pages_of(cache) + pages > limit || !is_near(block)) {
        return false;
    }
    size_t bin = bin_of(pages);
    size_t count = count_of(cache, bin);
    if (count == PS_CPU_MEDIUM_BLOCKS) {
        return false;
    }
    ps_cpu_lock_changes(&cache->lock, bin);
    cache->blocks[bin][count] = block;
    set_count(cache, bin, count + 1);
    set_pages(cache, pages_of(cache) + pages);
    return true;
}

size_t ps_cpu_medium_put(size_t index, ps_medium_block *blocks, size_t count) {
    struct ps_cpu_medium *cache = cache_at(index);
    size_t limit = cache != NULL ? ps_load_relaxed(&cache->x_limit) : 0; /* relaxed: a hint */
    if (limit == 0 || !ps_retention_is_usual() || !ps_cpu_lock_enter(&cache->lock, 0)) {
        return count;
    }
    size_t others = 0;
    for (size_t i = 0; i < count; i++) {
        if (!add(cache, blocks[i], limit)) {
            blocks[others++] = blocks[i];
        }
    }
    ps_cpu_lock_leave(&cache->lock);
    return others;
}

/* ---- return ---- */

/* Takes the blocks of a bin that were not used since the last time, or all. Returns how many. */
static size_t take_oldest(struct ps_cpu_medium *cache, size_t bin, bool is_all,
                          ps_medium_block *taken) {
    if (count_of(cache, bin) == 0 || !ps_cpu_lock_enter(&cache->lock, bin)) {
        return 0;
    }
    ps_medium_block *blocks = cache->blocks[bin];
    size_t count = count_of(cache, bin);
    size_t idle = is_all ? count : ps_min(count, cache->low[bin]);
    for (size_t i = 0; i < idle; i++) {
        taken[i] = blocks[i];
        set_pages(cache, pages_of(cache) - ps_medium_pages_of(blocks[i]));
    }
    memmove(blocks, blocks + idle, (count - idle) * sizeof *blocks);
    set_count(cache, bin, count - idle);
    cache->low[bin] = (uint8_t)(count - idle);
    ps_cpu_lock_leave(&cache->lock);
    return idle;
}

bool ps_cpu_medium_is_used(size_t index) {
    const struct ps_cpu_medium *cache = cache_at(index);
    /* relaxed, both: hints. */
    return cache != NULL && (pages_of(cache) != 0 || ps_load_relaxed(&cache->x_limit) != 0 ||
                             ps_load_relaxed(&cache->x_asks) != 0);
}

bool ps_cpu_medium_return(size_t index, bool is_all) {
    struct ps_cpu_medium *cache = cache_at(index);
    if (cache == NULL) {
        return false;
    }
    /* relaxed, all: as in count_ask. */
    uint32_t limit = ps_load_relaxed(&cache->x_asks) / PS_CPU_MEDIUM_ASKS_A_PAGE;
    ps_store_relaxed(&cache->x_limit, (uint16_t)ps_min(limit, PS_CPU_MEDIUM_PAGES));
    ps_store_relaxed(&cache->x_asks, 0u);
    for (size_t bin = 0; bin < PS_CPU_MEDIUM_BINS; bin++) {
        ps_medium_block taken[PS_CPU_MEDIUM_BLOCKS];
        size_t count = take_oldest(cache, bin, is_all, taken);
        if (count != 0) {
            ps_medium_return_waiting(taken, count);
        }
    }
    return pages_of(cache) != 0;
}

void ps_cpu_medium_fork_child(void) {
    for (size_t i = 0; i < PS_CPU_MEDIUMS; i++) {
        struct ps_cpu_medium *cache = cache_at(i);
        if (cache == NULL || !ps_cpu_lock_fork_child(&cache->lock)) {
            continue;
        }
        set_count(cache, cache->lock.changing, 0); /* blocks may stand there twice */
        set_pages(cache, 0);
        for (size_t bin = 0; bin < PS_CPU_MEDIUM_BINS; bin++) {
            for (size_t k = 0; k < count_of(cache, bin); k++) {
                set_pages(cache, pages_of(cache) + ps_medium_pages_of(cache->blocks[bin][k]));
            }
        }
    }
}
