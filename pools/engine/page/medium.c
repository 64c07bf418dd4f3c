/* SPDX-License-Identifier: MIT */
/*
 * See medium.h. Marks are not under the lock of the regions: the holder of a block writes them. A
 * section that is rolled back in the child of a fork leaves blocks without an owner, or free pages
 * whose mark is 0.
 */
#include "pools/engine/page/medium.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/medium_regions.h"
#include "pools/engine/page/page_cache.h"

#define EMPTY_KEPT 1            /* regions, for a program whose size oscillates across a boundary */
#define IDLE_PAGES PS_PAGE_BITS /* dirty ones, from which on a shard serves others, too */

/* The region of an address inside of it. */
static struct ps_medium_region *region_at(const void *address) {
    char *granule = (char *)ps_round_down((uintptr_t)address, PS_GRANULE_BYTES);
    size_t back = ps_page_map_slot(granule)->run.back;
    return (struct ps_medium_region *)ps_page_map_slot(granule - back * PS_GRANULE_BYTES);
}

static size_t page_in(struct ps_medium_region *region, const void *address) {
    return (size_t)((const char *)address - ps_medium_run_of(region)->base) >> PS_MEDIUM_PAGE_SHIFT;
}

/* ---- regions ---- */

static void describe(struct ps_run *run) {
    struct ps_medium_region *region = ps_medium_region_of_run(run);
    for (size_t i = 0; i < PS_PAGE_BIT_WORDS; i++) {
        region->free[i] = ~(uint64_t)0;
        region->dirty[i] = run->is_dirty ? ~(uint64_t)0 : 0;
    }
    region->longest = PS_PAGE_BITS;
    region->free_pages = PS_PAGE_BITS;
    region->dirty_free = run->is_dirty ? PS_PAGE_BITS : 0;
    region->is_refused = 0;
}

void ps_medium_mark_granule(char *base, size_t index) {
    struct ps_slot *slot = ps_page_map_slot(base);
    for (size_t page = 0; page < PS_MEDIUM_GRANULE_PAGES; page++) {
        /* relaxed: a free of a wild pointer into the granule reads these. */
        ps_store_relaxed(&((struct ps_medium_granule *)slot)->x_marks[page], (uint8_t)0);
    }
    /* relaxed: other threads learn of a block of the region only later; a walk over all
     * slots reads `back` once it has read the kind below. */
    ps_store_relaxed(&slot->run.back, (uint16_t)index);
    /* release: pairs with walks over all slots. */
    ps_store_release(&slot->run.kind, (uint8_t)PS_RUN_MEDIUM);
}

/* Makes every address in the run lead to its head, which is described. */
static void mark_granules(const struct ps_run *run) {
    for (size_t i = PS_MEDIUM_GRANULES; i-- > 0;) {
        ps_medium_mark_granule(run->base + i * PS_GRANULE_BYTES, i);
    }
}

static void unmark_granules(struct ps_run *run) {
    for (size_t i = PS_MEDIUM_GRANULES; i-- > 0;) {
        struct ps_slot *slot = ps_page_map_slot(run->base + i * PS_GRANULE_BYTES);
        /* relaxed, both: free() only classifies by them. */
        ps_store_relaxed(&slot->run.kind, (uint8_t)(i == 0 ? PS_RUN_BUSY : PS_RUN_NONE));
        ps_store_relaxed(&slot->run.back, (uint16_t)0);
    }
}

static struct ps_medium_region *make(void) {
    struct ps_run *run = ps_page_cache_take(PS_MEDIUM_GRANULES, 1);
    if (run == NULL) {
        return NULL;
    }
    describe(run);
    mark_granules(run);
    return ps_medium_region_of_run(run);
}

/* Returns a list, linked by next, to the page cache. */
static void unmake(struct ps_run *list) {
    while (list != NULL) {
        struct ps_run *run = list;
        list = run->next;
        bool is_dirty = ps_medium_region_of_run(run)->dirty_free != 0;
        unmark_granules(run);
        if (is_dirty) {
            ps_page_cache_give(run);
        } else {
            ps_page_cache_give_zero(run);
        }
    }
}

/* ---- allocation ---- */

/*
 * The place of a block in a hole that suffices. In one that is not twice as long, at the end: what
 * began at its begin was freed and is not handed out again yet, so a second free of it is noticed.
 * In a longer one, at the begin, with room to grow.
 */
static size_t place_in(size_t from, size_t to, size_t pages, size_t align) {
    size_t last = ps_round_down(to - pages, align);
    return to - from < 2 * pages && last >= from ? last : ps_round_up(from, align);
}

struct choice {
    size_t from;
    size_t to;
    size_t longest_other; /* complete if the chosen hole is as long as the longest */
};

/* The shortest hole that suffices, the lowest of equals. There is one. */
static struct choice choose_hole(const struct ps_medium_region *region, size_t pages,
                                 size_t align) {
    struct choice best = {0, 0, 0};
    size_t shortest = SIZE_MAX;
    struct ps_pages_walk walk = ps_pages_walk_start(region->free);
    while ((shortest != pages || pages == region->longest) && ps_pages_walk_next(&walk)) {
        size_t length = walk.to - walk.from;
        if (length < shortest && ps_round_up(walk.from, align) + pages <= walk.to) {
            size_t longest_other = ps_max(best.longest_other, best.to - best.from);
            best = (struct choice){walk.from, walk.to, longest_other};
            shortest = length;
        } else {
            best.longest_other = ps_max(best.longest_other, length);
        }
    }
    PS_CHECK(shortest != SIZE_MAX);
    return best;
}

static char *take_from_locked(struct ps_medium_shard *shard, struct ps_medium_region *region,
                              size_t pages, size_t align, bool *is_zero) {
    struct choice hole = choose_hole(region, pages, align);
    size_t from = place_in(hole.from, hole.to, pages, align);
    size_t to = from + pages;
    ps_medium_regions_unlink(shard, region);
    *is_zero = ps_medium_region_use(shard, region, from, to);
    if (hole.to - hole.from == region->longest) {
        size_t longest_rest = ps_max(from - hole.from, hole.to - to);
        region->longest = (uint16_t)ps_max(hole.longest_other, longest_rest);
    }
    ps_medium_regions_link(shard, region);
    ps_medium_regions_lower(shard);
    return ps_medium_run_of(region)->base + (from << PS_MEDIUM_PAGE_SHIFT);
}

/* From a region that is there, or NULL. */
static char *take_from_shard_locked(struct ps_medium_shard *shard, size_t pages, size_t align,
                                    bool *is_zero) {
    struct ps_medium_region *region = ps_medium_regions_find(shard, pages + align - 1);
    return region != NULL ? take_from_locked(shard, region, pages, align, is_zero) : NULL;
}

/* Allocates from a shard of the same node that has as many dirty pages as a region, so that no new
 * region is filled while memory is idle elsewhere. NULL: no such shard, or its lock is taken. */
static char *take_from_idle(const struct ps_medium_shard *own, size_t pages, size_t align,
                            bool *is_zero) {
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        bool is_idle = ps_load_relaxed(&shard->x_dirty) >= IDLE_PAGES; /* relaxed: a hint */
        if (is_idle && shard != own && shard->node == own->node && ps_lock_try(&shard->lock)) {
            char *block = take_from_shard_locked(shard, pages, align, is_zero);
            ps_medium_shard_leave(shard);
            if (block != NULL) {
                return block;
            }
        }
    }
    return NULL;
}

/* From any shard: memory is exhausted. */
static PS_COLD char *take_from_any(size_t pages, size_t align, bool *is_zero) {
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        ps_medium_shard_enter(shard);
        char *block = take_from_shard_locked(shard, pages, align, is_zero);
        ps_medium_shard_leave(shard);
        if (block != NULL) {
            return block;
        }
    }
    return NULL;
}

char *ps_medium_take(size_t pages, size_t align, bool *is_zero) {
    PS_CHECK(pages > 0 && pages <= PS_MEDIUM_PAGES_LIMIT && align <= PS_MEDIUM_ALIGN_LIMIT);
    struct ps_medium_shard *shard = ps_medium_shard_here();
    ps_medium_shard_enter(shard);
    char *block = take_from_shard_locked(shard, pages, align, is_zero);
    ps_medium_shard_leave(shard);
    if (PS_LIKELY(block != NULL)) {
        return block;
    }
    block = take_from_idle(shard, pages, align, is_zero);
    if (block != NULL) {
        return block;
    }
    struct ps_medium_region *made = make(); /* two threads may both: one is used later */
    if (made == NULL) {
        return take_from_any(pages, align, is_zero);
    }
    ps_medium_shard_enter(shard);
    ps_medium_regions_link_new(shard, made);
    ps_lock_commit(&shard->lock);
    block = take_from_locked(shard, made, pages, align, is_zero);
    ps_medium_shard_leave(shard);
    return block;
}

/* ---- return ---- */

/* Moves an empty region to a list while the shard has more than `kept` of them. Returns false if it
 * has not. */
static bool drop_empty_locked(struct ps_medium_shard *shard, size_t kept, struct ps_run **emptied) {
    struct ps_run *run = ps_medium_regions_take_empty(shard, kept);
    if (run != NULL) {
        ps_lock_commit(&shard->lock);
        run->next = *emptied;
        *emptied = run;
        ps_medium_regions_lower(shard);
    }
    return run != NULL;
}

static void give_locked(struct ps_medium_shard *shard, struct ps_medium_region *region,
                        ps_medium_block block, struct ps_run **emptied) {
    size_t page = page_in(region, ps_medium_address_of(block));
    ps_medium_regions_unlink(shard, region);
    ps_medium_region_free(shard, region, page, page + ps_medium_pages_of(block));
    ps_medium_regions_link(shard, region);
    ps_lock_commit(&shard->lock);
    (void)drop_empty_locked(shard, EMPTY_KEPT, emptied);
}

void ps_medium_give(const ps_medium_block *blocks, size_t count) {
    struct ps_run *emptied = NULL;
    struct ps_medium_shard *held = NULL;
    for (size_t i = 0; i < count; i++) {
        struct ps_medium_region *region = region_at(ps_medium_address_of(blocks[i]));
        struct ps_medium_shard *shard = ps_medium_shard_of(region);
        if (shard != held) {
            if (held != NULL) {
                ps_medium_shard_leave(held);
            }
            ps_medium_shard_enter(shard);
            held = shard;
        }
        give_locked(shard, region, blocks[i], &emptied);
    }
    if (held != NULL) {
        ps_medium_shard_leave(held);
    }
    unmake(emptied);
}

void ps_medium_give_waiting(void *const *blocks, size_t count, size_t pages) {
    ps_medium_block given[PS_MEDIUM_AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        /* relaxed: a free page has no reader but a census. */
        ps_store_relaxed(ps_medium_mark(ps_page_map_slot(blocks[i]), blocks[i]), (uint8_t)0);
        given[i] = ps_medium_block_of(blocks[i], pages);
    }
    ps_medium_give(given, count);
}

void ps_medium_fork_add(void *block, size_t pages) {
    const struct ps_slot *slot = ps_page_map_slot(block);
    if (slot->run.kind == PS_RUN_MEDIUM &&
        *ps_medium_mark(slot, block) == (pages | PS_MEDIUM_WAITS) && !ps_medium_is_free(block)) {
        ps_medium_give_waiting(&block, 1, pages);
    }
}

void ps_medium_drop_empty(size_t kept) {
    struct ps_run *emptied = NULL;
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        ps_medium_shard_enter(shard);
        while (drop_empty_locked(shard, kept, &emptied)) { /* ends: fewer are left each time */
        }
        ps_medium_shard_leave(shard);
    }
    unmake(emptied);
}

bool ps_medium_extend(ps_medium_block block, size_t more) {
    struct ps_medium_region *region = region_at(ps_medium_address_of(block));
    struct ps_medium_shard *shard = ps_medium_shard_of(region);
    size_t from = page_in(region, ps_medium_address_of(block)) + ps_medium_pages_of(block);
    ps_medium_shard_enter(shard);
    /* `from` if a block follows, or the region ends. */
    size_t end = ps_max(ps_pages_next_clear(region->free, from), from);
    bool is_free = end - from >= more;
    if (is_free) {
        ps_medium_regions_unlink(shard, region);
        (void)ps_medium_region_use(shard, region, from, from + more);
        if (end - from == region->longest) {
            region->longest = (uint16_t)ps_pages_longest(region->free);
        }
        ps_medium_regions_link(shard, region);
        ps_medium_regions_lower(shard);
    }
    ps_medium_shard_leave(shard);
    return is_free;
}

bool ps_medium_is_free(const void *address) {
    struct ps_medium_region *region = region_at(address);
    struct ps_medium_shard *shard = ps_medium_shard_of(region);
    size_t page = page_in(region, address);
    ps_medium_shard_enter(shard);
    bool is_free = ((region->free[page / 64] >> page % 64) & 1) != 0;
    ps_medium_shard_leave(shard);
    return is_free;
}

uint32_t ps_medium_node_of(ps_medium_block block) {
    return ps_medium_run_of(region_at(ps_medium_address_of(block)))->node;
}

void ps_medium_count(struct ps_medium_counts *out) {
    *out = (struct ps_medium_counts){0};
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        ps_medium_shard_enter(shard);
        out->region_count += shard->counts.region_count;
        out->dirty_pages += shard->counts.dirty_pages;
        out->refused_pages += shard->counts.refused_pages;
        out->clean_pages += shard->counts.clean_pages;
        ps_medium_shard_leave(shard);
    }
}

void ps_medium_fork_child(void) {
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        ps_lock_fork_child(&shard->lock);
    }
}
