/* SPDX-License-Identifier: MIT */
/*
 * See medium_cache.h.
 */
#include "pools/engine/heap/medium_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/cpu_medium.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/os/os.h"

#define ALONE_PAGES 64 /* a longer block is not cached */
#define CPU_ASKS 16    /* requests after which a thread asks for its processor again */
#define FIRST_ASKS 256 /* of a thread, before a cache is made for its processor */

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

static uint8_t *mark_of(const void *block) {
    return ps_medium_mark(ps_page_map_slot(block), block);
}

/* relaxed: other threads read the mark while they hold the block, or for a census, or by misuse. */
static void set_mark(uint8_t *mark, size_t value) { ps_store_relaxed(mark, (uint8_t)value); }

/* Removes entry i, whose block becomes live. */
static void *take_entry(struct ps_medium_cache *cache, size_t i) {
    struct ps_medium_entry entry = cache->entries[i];
    ps_owner_add(&cache->sums, 0 - ps_medium_sums_of(1, ps_medium_pages_of(entry.block)));
    for (; PS_UNLIKELY(i < ps_medium_cache_count(cache)); i++) {
        ps_fence_program_order(); /* for the child of a fork: every entry is present */
        cache->entries[i] = cache->entries[i + 1];
    }
    ps_fence_program_order(); /* likewise: a live block is not listed */
    set_mark(entry.mark, ps_medium_pages_of(entry.block));
    return ps_medium_address_of(entry.block);
}

/* The newest suitable block, or NULL. */
static void *take_waiting(struct ps_medium_cache *cache, size_t pages) {
    for (size_t i = ps_medium_cache_count(cache); i-- > 0;) {
        if (ps_medium_suits(cache->entries[i].block, pages)) {
            return take_entry(cache, i);
        }
    }
    return NULL;
}

/* A block of the processor's cache, or NULL. */
static void *take_cached(struct ps_medium_cache *cache, size_t pages) {
    if (cache->asks % CPU_ASKS == 0) { /* a system call on some systems */
        cache->cpu = (uint16_t)(ps_os_cpu() % PS_CPU_MEDIUMS);
    }
    ps_medium_block block = ps_cpu_medium_take(cache->cpu, pages, cache->asks >= FIRST_ASKS);
    cache->asks++;
    if (block == 0) {
        return NULL;
    }
    void *address = ps_medium_address_of(block);
    set_mark(mark_of(address), ps_medium_pages_of(block));
    return address;
}

static PS_NOINLINE void *take_shared(size_t pages, size_t align, bool *is_zero) {
    bool is_clean;
    char *block = ps_medium_take(pages, align, &is_clean);
    if (block == NULL) {
        return NULL;
    }
    set_mark(mark_of(block), pages);
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

void ps_medium_set_sampled(void *block) { set_mark(mark_of(block), PS_MEDIUM_SAMPLED); }

void ps_medium_set_live(void *block, size_t bytes) { set_mark(mark_of(block), pages_for(bytes)); }

void ps_medium_free_sampled(void *block, size_t bytes) {
    free_shared(mark_of(block), ps_medium_block_of(block, pages_for(bytes)));
}

void *ps_medium_alloc(struct ps_heap *heap, size_t bytes, size_t align, bool *is_zero) {
    size_t pages = pages_for(bytes);
    void *block = NULL;
    if (PS_LIKELY(heap != NULL && align <= PS_MEDIUM_PAGE_BYTES)) {
        block = take_waiting(&heap->medium, pages);
        block = block != NULL ? block : take_cached(&heap->medium, pages);
    }
    if (block == NULL) {
        return take_shared(pages, align <= PS_MEDIUM_PAGE_BYTES ? 1 : pages_for(align), is_zero);
    }
    if (is_zero != NULL) {
        *is_zero = false;
    }
    return block;
}

void ps_medium_return_waiting(const ps_medium_block *blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        set_mark(mark_of(ps_medium_address_of(blocks[i])), 0);
    }
    ps_medium_give(blocks, count);
}

/* Removes the oldest blocks until at most `pages` pages and so many blocks are left. may_cache: to
 * the processor's cache. */
static PS_NOINLINE void shorten(struct ps_medium_cache *cache, size_t pages, size_t blocks,
                                bool may_cache) {
    ps_medium_block gone[PS_MEDIUM_CACHE_LIMIT];
    size_t count = ps_medium_cache_count(cache);
    size_t gone_count = 0;
    size_t gone_pages = 0;
    while (ps_medium_cache_pages(cache) - gone_pages > pages || count - gone_count > blocks) {
        gone[gone_count] = cache->entries[gone_count].block;
        gone_pages += ps_medium_pages_of(gone[gone_count]);
        gone_count++;
    }
    for (size_t i = gone_count; i < count; i++) {
        cache->entries[i - gone_count] = cache->entries[i];
    }
    ps_fence_program_order(); /* for the child of a fork: every entry that stays is present */
    ps_owner_add(&cache->sums, 0 - ps_medium_sums_of(gone_count, gone_pages));
    ps_fence_program_order(); /* likewise: what is in another place is not listed */
    if (may_cache) {
        cache->cpu = (uint16_t)(ps_os_cpu() % PS_CPU_MEDIUMS);
        gone_count = ps_cpu_medium_put(cache->cpu, gone, gone_count);
    }
    if (gone_count != 0) {
        ps_medium_return_waiting(gone, gone_count);
    }
}

bool ps_medium_free(struct ps_heap *heap, struct ps_slot *slot, void *address) {
    if (PS_UNLIKELY(!ps_medium_is_live(slot, address))) {
        ps_mode.hook.stray_free(slot, address);
        return false;
    }
    uint8_t *mark = ps_medium_mark(slot, address);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    if (heap == NULL || pages > ALONE_PAGES) {
        free_shared(mark, ps_medium_block_of(address, pages));
        if (heap != NULL) {
            ps_owner_add(&heap->medium.x_frees, 1);
        }
        return heap != NULL;
    }
    struct ps_medium_cache *cache = &heap->medium;
    size_t count = ps_medium_cache_count(cache);
    bool is_full = count == PS_MEDIUM_CACHE_LIMIT ||
                   (count != 0 && ps_medium_cache_pages(cache) + pages > PS_MEDIUM_CACHE_PAGES);
    if (is_full) {
        /* Half of it, so that not each free of a sequence takes the lock. */
        shorten(cache,
                ps_min(PS_MEDIUM_CACHE_PAGES / 2,
                       PS_MEDIUM_CACHE_PAGES - ps_min(pages, PS_MEDIUM_CACHE_PAGES)),
                PS_MEDIUM_CACHE_LIMIT / 2, true);
    }
    uint32_t sums = ps_medium_sums_after_free(cache, pages);
    bool is_due = sums >> PS_MEDIUM_SUMS_FREES == PS_MEDIUM_FREES_PER_LOOK;
    if (is_due) {
        sums &= (1u << PS_MEDIUM_SUMS_FREES) - 1;
        ps_owner_add(&cache->x_frees, PS_MEDIUM_FREES_PER_LOOK);
    }
    ps_medium_enter(cache, address, pages, mark, sums);
    /* A sequence of long blocks would exceed the bound of surplus.h before so many frees. relaxed:
     * a hint that there is such a bound. */
    bool is_bounded = ps_load_relaxed(&ps_room_x_is_shared) == 0;
    return is_due || (is_full && pages > PS_MEDIUM_CACHE_PAGES && is_bounded);
}

void ps_medium_flush(struct ps_heap *heap) { shorten(&heap->medium, 0, 0, false); }

void ps_medium_fork_salvage(struct ps_heap *heap) {
    struct ps_medium_cache *cache = &heap->medium;
    for (size_t i = 0; i < ps_medium_cache_count(cache); i++) {
        /* The block alone: an entry that was being copied may have the mark of another one. */
        ps_medium_block block = cache->entries[i].block;
        uint8_t *mark = mark_of(ps_medium_address_of(block));
        /* Not for a second time, and not a block that was about to be returned. */
        if (*mark == (ps_medium_pages_of(block) | PS_MEDIUM_WAITS)) {
            free_shared(mark, block);
        }
    }
    ps_store_relaxed(&cache->sums, 0); /* relaxed: other threads read a snapshot */
}

bool ps_medium_resize(struct ps_slot *slot, void *block, size_t bytes) {
    uint8_t *mark = ps_medium_mark(slot, block);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    size_t wanted = pages_for(bytes);
    if (bytes >= limit_bytes ||
        (wanted > pages && !ps_medium_extend(ps_medium_block_of(block, pages), wanted - pages))) {
        return false;
    }
    if (wanted < pages && ps_medium_suits(ps_medium_block_of(block, pages), wanted)) {
        return true;
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
        uint8_t mark = ps_load_relaxed(mark_of(page)); /* relaxed: a snapshot */
        size_t pages = mark & (PS_MEDIUM_WAITS - 1u);
        bool is_live = mark == pages && pages != 0;
        use->live_count += is_live;
        use->live_pages += is_live ? pages : 0;
        use->waiting_pages += is_live ? 0 : pages;
    }
}
