/* SPDX-License-Identifier: MIT */
/*
 * See medium_cache.h.
 */
#include "pools/engine/heap/medium_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/retention.h"

#include <string.h>

static size_t limit_bytes; /* requests below it are served; 0: no medium blocks */
static size_t os_pages;    /* granularity: 4 KiB pages per page of the system */

void ps_medium_cache_start(const struct ps_config *config) {
    os_pages = ps_max(ps_os_page_bytes() >> PS_MEDIUM_PAGE_SHIFT, 1);
    bool is_on = config->harden == 0 && os_pages <= PS_MEDIUM_ALIGN_LIMIT;
    size_t limit = ps_round_down(PS_MEDIUM_PAGES_LIMIT, os_pages) << PS_MEDIUM_PAGE_SHIFT;
    limit_bytes = is_on ? ps_min(limit + 1, config->mmap_min_bytes) : 0;
}

bool ps_medium_is_size(size_t bytes, size_t align) {
    return bytes < limit_bytes && align <= PS_MEDIUM_ALIGN_LIMIT << PS_MEDIUM_PAGE_SHIFT;
}

static size_t pages_for(size_t bytes) {
    size_t pages = (bytes + PS_MEDIUM_PAGE_BYTES - 1) >> PS_MEDIUM_PAGE_SHIFT;
    return ps_round_up(ps_max(pages, 1), os_pages);
}

/* Most pages of a block that serves a request of so many. */
static size_t most_pages_for(size_t pages) { return pages + pages / 8; }

/* relaxed: other threads read the mark if they own the block, for a census, or by misuse. */
static void set_mark(uint8_t *mark, size_t value) { ps_store_relaxed(mark, (uint8_t)value); }

/* The shortest cached block that serves a request; NULL if there is none. */
static void *take_waiting(struct ps_medium_cache *cache, size_t pages) {
    size_t last = ps_min(most_pages_for(pages), PS_MEDIUM_LONGEST);
    for (; pages <= last; pages++) {
        size_t count = cache->counts[pages];
        if (count != 0) {
            return ps_medium_pop(cache, pages, count);
        }
    }
    return NULL;
}

static PS_NOINLINE void *take_shared(size_t pages, size_t align, bool *is_zero) {
    bool is_clean;
    char *block = ps_medium_take(pages, align, &is_clean);
    if (block == NULL) {
        return NULL;
    }
    set_mark(ps_medium_mark_of(block), pages);
    if (ps_limit_is_on() && is_clean) {
        ps_limit_make_room(pages << PS_MEDIUM_PAGE_SHIFT);
    }
    if (is_zero != NULL) {
        *is_zero = is_clean;
    }
    return block;
}

static PS_NOINLINE void free_shared(uint8_t *mark, ps_medium_block block) {
    set_mark(mark, 0);
    ps_medium_give(&block, 1);
}

void *ps_medium_alloc_sampled(size_t bytes, size_t align) {
    bool is_clean;
    size_t align_pages = align <= PS_MEDIUM_PAGE_BYTES ? 1 : pages_for(align);
    char *block = ps_medium_take(pages_for(bytes), align_pages, &is_clean);
    if (block != NULL) {
        ps_medium_set_sampled(block);
    }
    return block;
}

void ps_medium_set_sampled(void *block) { set_mark(ps_medium_mark_of(block), PS_MEDIUM_SAMPLED); }

void ps_medium_set_live(void *block, size_t bytes) {
    set_mark(ps_medium_mark_of(block), pages_for(bytes));
}

void ps_medium_free_sampled(void *block, size_t bytes) {
    free_shared(ps_medium_mark_of(block), ps_medium_block_of(block, pages_for(bytes)));
}

void *ps_medium_alloc(struct ps_heap *heap, size_t bytes, size_t align, bool *is_zero) {
    size_t pages = pages_for(bytes);
    void *block = NULL;
    if (PS_LIKELY(heap != NULL && align <= PS_MEDIUM_PAGE_BYTES)) {
        block = take_waiting(&heap->medium, pages);
        if (block == NULL) {
            heap->medium.asks++;
        }
    }
    if (block == NULL) {
        return take_shared(pages, align <= PS_MEDIUM_PAGE_BYTES ? 1 : pages_for(align), is_zero);
    }
    if (is_zero != NULL) {
        *is_zero = false;
    }
    return block;
}

/* ---- blocks that leave the cache ---- */

/* That return under one lock, and that the child of a fork loses. */
#define LEAVING_AT_ONCE 16

struct leaving {
    size_t count;
    ps_medium_block blocks[LEAVING_AT_ONCE];
};

static void return_leaving(struct leaving *leaving) {
    for (size_t i = 0; i < leaving->count; i++) {
        set_mark(ps_medium_mark_of(ps_medium_address_of(leaving->blocks[i])), 0);
    }
    ps_medium_give(leaving->blocks, leaving->count);
    leaving->count = 0;
}

/* Moves the oldest cached blocks of so many pages to `leaving`. */
static void leave(struct ps_medium_cache *cache, size_t pages, size_t count,
                  struct leaving *leaving) {
    if (leaving->count + count > LEAVING_AT_ONCE) {
        return_leaving(leaving);
    }
    void **blocks = cache->blocks[pages];
    size_t left = cache->counts[pages] - count;
    for (size_t i = 0; i < count; i++) {
        leaving->blocks[leaving->count++] = ps_medium_block_of(blocks[i], pages);
    }
    memmove(blocks, blocks + count, left * sizeof *blocks);
    ps_fence_program_order(); /* for the child of a fork: every remaining block is present */
    cache->counts[pages] = (uint8_t)left;
    ps_owner_add(&cache->x_sums, count * pages);
    ps_fence_program_order(); /* likewise: a block that is elsewhere is in no bin */
}

/* Halves one bin after the other, until at most so many pages are cached. */
static void shorten(struct ps_medium_cache *cache, size_t pages, struct leaving *leaving) {
    while (ps_medium_cache_pages(cache) > pages) { /* ends: each round halves all bins */
        size_t bin = cache->next_bin++ % (PS_MEDIUM_LONGEST + 1);
        size_t count = (cache->counts[bin] + 1u) / 2;
        if (count != 0) {
            leave(cache, bin, count, leaving);
        }
    }
}

/* The limit of cached pages. */
static size_t limit_of(const struct ps_medium_cache *cache) {
    if (!ps_retention_is_usual()) {
        return PS_MEDIUM_PAGES_FIRST;
    }
    size_t takes = ps_medium_cache_takes(cache) - cache->taken;
    size_t most = ps_min(ps_background_share(PS_MEDIUM_PAGES_OF_CPU), PS_MEDIUM_PAGES_MOST);
    return ps_max(ps_min(takes / PS_MEDIUM_TAKES_A_PAGE, most), PS_MEDIUM_PAGES_FIRST);
}

/* pages: cached ones, at most `limit`. On a machine of several nodes each free comes to
 * ps_medium_free, which does not cache blocks of other nodes. */
static void set_limit(struct ps_medium_cache *cache, size_t limit, size_t pages) {
    uint64_t sums = cache->x_sums & ~(uint64_t)(PS_MEDIUM_SUMS_ROOM | PS_MEDIUM_SUMS_OPEN);
    bool is_open = limit != 0 && PS_LIKELY(ps_node_last() == 0);
    cache->limit = (uint16_t)limit;
    /* relaxed: other threads read a snapshot. */
    ps_store_relaxed(&cache->x_sums, sums | (limit - pages) | (is_open ? PS_MEDIUM_SUMS_OPEN : 0));
}

/* Makes room for a block in its bin. Returns whether blocks of any bin were returned because the
 * cache was full. */
static PS_NOINLINE bool make_room(struct ps_medium_cache *cache, size_t pages) {
    struct leaving leaving;
    leaving.count = 0;
    if (cache->counts[pages] == PS_MEDIUM_BIN_BLOCKS) {
        leave(cache, pages, PS_MEDIUM_BIN_BLOCKS / 2, &leaving);
    }
    size_t limit = limit_of(cache);
    bool is_full = ps_medium_cache_pages(cache) + pages > limit;
    if (is_full) {
        /* So many at once that not each free of a sequence takes the lock. */
        shorten(cache, ps_min(limit * 3 / 4, limit - ps_min(pages, limit)), &leaving);
    }
    /* A longer one is cached alone. */
    set_limit(cache, ps_max(limit, pages), ps_medium_cache_pages(cache));
    return_leaving(&leaving);
    return is_full;
}

/* True if the block's memory is on this processor's node. */
static bool is_near(ps_medium_block block) {
    return PS_LIKELY(ps_node_last() == 0) || ps_medium_node_of(block) == ps_node_here();
}

/* Counts the free of a block that is not cached. True if it is time to read the clock. */
static bool note_shared_free(struct ps_medium_cache *cache, size_t pages) {
    ps_owner_add(&cache->x_frees, 1);
    return pages > PS_MEDIUM_LONGEST || cache->x_frees % PS_MEDIUM_FREES_PER_LOOK == 0;
}

bool ps_medium_free(struct ps_heap *heap, struct ps_slot *slot, void *address) {
    if (PS_UNLIKELY(!ps_medium_is_live(slot, address))) {
        ps_mode.hook.stray_free(slot, address);
        return false;
    }
    uint8_t *mark = ps_medium_mark(slot, address);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    ps_medium_block block = ps_medium_block_of(address, pages);
    if (heap == NULL || pages > PS_MEDIUM_LONGEST || !is_near(block)) {
        free_shared(mark, block);
        return heap != NULL && note_shared_free(&heap->medium, pages);
    }
    struct ps_medium_cache *cache = &heap->medium;
    bool is_full = make_room(cache, pages);
    uint64_t sums = ps_medium_sums_after_free(cache, pages);
    bool is_due = (sums & PS_MEDIUM_FREES_PER_LOOK << PS_MEDIUM_SUMS_FREES) != 0;
    if (is_due) {
        sums -= PS_MEDIUM_FREES_PER_LOOK << PS_MEDIUM_SUMS_FREES;
        ps_owner_add(&cache->x_frees, PS_MEDIUM_FREES_PER_LOOK);
    }
    ps_medium_push(cache, address, pages, mark, sums);
    /* A sequence of long blocks would exceed the bound of surplus.h before so many frees. relaxed:
     * a hint that there is such a bound. */
    bool is_bounded = ps_load_relaxed(&ps_room_x_is_shared) == 0;
    return is_due || (is_full && pages > PS_MEDIUM_PAGES_FIRST && is_bounded);
}

void ps_medium_flush(struct ps_heap *heap) {
    struct ps_medium_cache *cache = &heap->medium;
    if (cache->limit == 0) {
        return; /* without a write to memory that may not have been touched */
    }
    struct leaving leaving;
    leaving.count = 0;
    for (size_t pages = 1; pages <= PS_MEDIUM_LONGEST; pages++) {
        if (cache->counts[pages] != 0) {
            leave(cache, pages, cache->counts[pages], &leaving);
        }
    }
    return_leaving(&leaving);
    cache->taken = ps_medium_cache_takes(cache);
    set_limit(cache, 0, 0);
}

void ps_medium_return_idle(struct ps_heap *heap) {
    uint32_t takes = ps_medium_cache_takes(&heap->medium);
    if (heap->medium.seen == takes) {
        ps_medium_flush(heap);
    } else {
        heap->medium.seen = takes;
    }
}

void ps_medium_fork_salvage(struct ps_heap *heap) {
    struct ps_medium_cache *cache = &heap->medium;
    for (size_t pages = 1; pages <= PS_MEDIUM_LONGEST; pages++) {
        for (size_t i = 0; i < cache->counts[pages]; i++) {
            void *block = cache->blocks[pages][i];
            uint8_t *mark = ps_medium_mark_of(block);
            /* Not for a second time, and not a block that was about to be returned. */
            if (*mark == (pages | PS_MEDIUM_WAITS)) {
                free_shared(mark, ps_medium_block_of(block, pages));
            }
        }
        cache->counts[pages] = 0;
    }
    set_limit(cache, 0, 0); /* whatever the thread was changing */
}

bool ps_medium_serves(size_t block_bytes, size_t bytes) {
    size_t pages = block_bytes >> PS_MEDIUM_PAGE_SHIFT;
    size_t wanted = pages_for(bytes);
    return wanted <= pages && pages <= most_pages_for(wanted);
}

bool ps_medium_set_length(struct ps_slot *slot, void *block, size_t bytes) {
    uint8_t *mark = ps_medium_mark(slot, block);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    size_t wanted = pages_for(bytes);
    if (wanted > pages && !ps_medium_extend(ps_medium_block_of(block, pages), wanted - pages)) {
        return false;
    }
    set_mark(mark, wanted);
    if (wanted < pages) {
        char *rest = (char *)block + (wanted << PS_MEDIUM_PAGE_SHIFT);
        ps_medium_block tail = ps_medium_block_of(rest, pages - wanted);
        ps_medium_give(&tail, 1);
    }
    return true;
}

void ps_medium_add_use(struct ps_slot *head, struct ps_medium_use *use) {
    for (size_t i = 0; i < PS_PAGE_BITS; i++) {
        char *page = head->run.base + (i << PS_MEDIUM_PAGE_SHIFT);
        const struct ps_slot *slot = ps_page_map_slot(page);
        if (!ps_medium_has_marks(slot)) {
            continue;
        }
        uint8_t mark = ps_load_relaxed(ps_medium_mark(slot, page)); /* relaxed: a snapshot */
        size_t pages = mark & (PS_MEDIUM_WAITS - 1u);
        bool is_live = mark == pages && pages != 0;
        use->live_count += is_live;
        use->live_pages += is_live ? pages : 0;
        use->waiting_pages += is_live ? 0 : pages;
    }
}
