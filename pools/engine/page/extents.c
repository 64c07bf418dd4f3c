/* SPDX-License-Identifier: MIT */
/*
 * See extents.h. Locks: that of the extents; spare_lock for records without an extent.
 */
#include "pools/engine/page/extents.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"

#define FIRST_GRANULES 8

static struct ps_lock spare_lock = PS_LOCK_INIT(PS_RANK_EXTENT_SPARE);
static struct ps_extent *spare; /* records without an extent, linked by next */
struct ps_extents *ps_extents_x_made;
struct ps_extents_counts ps_extents_x_counts;

void ps_extents_make(struct ps_extents *extents) {
    extents->lock.rank = PS_RANK_EXTENTS;
    extents->next_made = ps_load_relaxed(&ps_extents_x_made); /* relaxed: the swap compares it */
    /* release: a walk over the list finds it complete. */
    while (!ps_cas_weak_release(&ps_extents_x_made, &extents->next_made, extents)) {
    }
}

/* ---- records ---- */

static struct ps_extent *take_record(void) {
    ps_lock_acquire(&spare_lock);
    struct ps_extent *record = spare_lock.depth == 0 ? spare : NULL;
    if (record != NULL) {
        spare = record->next;
    }
    ps_lock_release(&spare_lock);
    return record != NULL ? record : ps_metadata_take(sizeof *record);
}

static void give_record(struct ps_extent *record) {
    ps_lock_acquire(&spare_lock);
    if (spare_lock.depth == 0) {
        record->next = spare;
        spare = record;
    }
    ps_lock_release(&spare_lock);
}

/* False, without the lock: a signal handler that forks has interrupted the holder, itself. */
static bool begin(struct ps_extents *extents) {
    ps_lock_acquire(&extents->lock);
    if (PS_LIKELY(extents->lock.depth == 0)) {
        return true;
    }
    ps_lock_release(&extents->lock);
    return false;
}

static void end(struct ps_extents *extents) { ps_lock_release(&extents->lock); }

/* ---- bits ---- */

static uint64_t mask_of(size_t first, size_t count) {
    return (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << first;
}

static uint64_t count_of(uint64_t bits) { return (uint64_t)__builtin_popcountll(bits); }

void ps_extents_count_free(struct ps_extents *extents, const struct ps_extent *extent,
                           uint64_t before_free, uint64_t before_dirty) {
    if (extent->is_long) {
        uint64_t more = extent->granules * (extent->free - before_free);
        ps_add_relaxed(&ps_extents_x_counts.x_reserved, more); /* relaxed: a count */
        return;
    }
    uint64_t dirty = count_of(extent->free & extent->dirty);
    uint64_t dirty_before = count_of(before_free & before_dirty);
    uint64_t clean = count_of(extent->free) - dirty;
    uint64_t clean_before = count_of(before_free) - dirty_before;
    /* relaxed, all: counts; the first is written under the lock. */
    ps_store_relaxed(&extents->x_dirty_free, extents->x_dirty_free + dirty - dirty_before);
    ps_add_relaxed(&ps_extents_x_counts.x_dirty, dirty - dirty_before);
    ps_add_relaxed(&ps_extents_x_counts.x_clean, clean - clean_before);
}

/* Sets which granules of an extent are free, and counts them. */
static void set_bits(struct ps_extents *extents, struct ps_extent *extent, uint64_t free,
                     uint64_t dirty) {
    uint64_t before_free = extent->free;
    uint64_t before_dirty = extent->dirty;
    extent->dirty = dirty; /* first: in the child of a fork no free granule passes for zero */
    ps_fence_stores();
    extent->free = free;
    ps_extents_count_free(extents, extent, before_free, before_dirty);
}

static void add_used(struct ps_extents *extents, uint64_t granules) {
    ps_store_relaxed(&extents->x_used, extents->x_used + granules); /* relaxed: others read it */
}

/* The lowest place of so many adjacent bits, so aligned; 64: there is none. */
static size_t find_bits(const struct ps_extent *extent, uint64_t bits, size_t count, size_t align) {
    for (size_t have = 1; have < count;) { /* ends: `have` grows. A bit: `have` follow from it on */
        size_t step = ps_min(have, count - have);
        bits &= bits >> step;
        have += step;
    }
    uintptr_t granule = (uintptr_t)extent->base >> PS_GRANULE_SHIFT;
    for (; bits != 0; bits &= bits - 1) {
        size_t at = (size_t)__builtin_ctzll(bits);
        if (((granule + at) & (align - 1)) == 0) {
            return at;
        }
    }
    return 64;
}

/* ---- short runs ---- */

static struct ps_run *describe(char *base, size_t granules, bool is_dirty) {
    struct ps_run *run = &ps_page_map_slot(base)->run;
    run->base = base;
    run->granules = (uint32_t)granules;
    run->is_dirty = is_dirty;
    run->is_huge = false;
    run->is_stuck = false;
    run->node = PS_NODE_APART;
    run->back = 0;
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_BUSY); /* relaxed: free() only classifies */
    return run;
}

/* Resident granules first. */
static struct ps_run *take_from(struct ps_extents *extents, struct ps_extent *extent,
                                size_t granules, size_t align) {
    size_t at = find_bits(extent, extent->free & extent->dirty, granules, align);
    at = at != 64 ? at : find_bits(extent, extent->free, granules, align);
    if (at == 64) {
        return NULL;
    }
    uint64_t mask = mask_of(at, granules);
    bool is_dirty = (extent->dirty & mask) != 0;
    extent->aged &= ~mask;
    set_bits(extents, extent, extent->free & ~mask, extent->dirty | mask);
    add_used(extents, granules);
    extents->hint = extent;
    return describe(extent->base + (at << PS_GRANULE_SHIFT), granules, is_dirty);
}

static struct ps_run *find_locked(struct ps_extents *extents, size_t granules, size_t align,
                                  struct ps_extent **found) {
    struct ps_extent *at = extents->hint;
    for (int i = 0; i < PS_EXTENT_TRIES && at != NULL; i++) {
        struct ps_run *run = take_from(extents, at, granules, align);
        if (run != NULL) {
            *found = at;
            return run;
        }
        at = at->next != NULL ? at->next : extents->first;
    }
    extents->hint = at; /* the next search continues there */
    return NULL;
}

/* A new extent, which no other thread knows; NULL: memory is exhausted. */
static struct ps_extent *add_extent(struct ps_extents *extents, size_t needed) {
    /* relaxed: a hint. */
    size_t usual = ps_max(ps_load_relaxed(&extents->x_granules), FIRST_GRANULES);
    usual = ps_max(ps_min(usual, PS_EXTENT_GRANULES), needed);
    struct ps_extent *extent = take_record();
    struct ps_run *run = extent != NULL ? ps_page_cache_take_apart(usual) : NULL;
    if (run == NULL && extent != NULL && usual > needed) {
        usual = needed;
        run = ps_page_cache_take_apart(usual);
    }
    if (run == NULL) {
        if (extent != NULL) {
            give_record(extent);
        }
        return NULL;
    }
    *extent = (struct ps_extent){.owner = extents,
                                 .base = run->base,
                                 .granules = (uint32_t)usual,
                                 .dirty = run->is_dirty ? mask_of(0, usual) : 0};
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE); /* relaxed: free() only classifies */
    return extent;
}

static void enlist(struct ps_extents *extents, struct ps_extent **list, struct ps_extent *extent) {
    extent->next = *list;
    *list = extent;
    /* relaxed: others read it. */
    ps_store_relaxed(&extents->x_granules, extents->x_granules + extent->granules);
}

static struct ps_run *take_short(struct ps_extents *extents, size_t granules, size_t align,
                                 struct ps_extent **found) {
    if (!begin(extents)) {
        return NULL;
    }
    struct ps_run *run = find_locked(extents, granules, align, found);
    end(extents);
    if (run != NULL) {
        return run;
    }
    struct ps_extent *added = add_extent(extents, granules + align - 1);
    if (added == NULL || !begin(extents)) {
        return NULL;
    }
    enlist(extents, &extents->first, added);
    set_bits(extents, added, mask_of(0, added->granules), added->dirty);
    run = take_from(extents, added, granules, align);
    end(extents);
    *found = added;
    return run;
}

/* ---- long runs ---- */

/* The shortest of a few that suffice, and are not twice as long; NULL: there is none. */
static struct ps_extent *find_long_locked(const struct ps_extents *extents, size_t granules,
                                          size_t align) {
    struct ps_extent *best = NULL;
    struct ps_extent *at = extents->first_long;
    for (int i = 0; i < PS_EXTENT_TRIES && at != NULL; at = at->next) {
        bool suffices = at->free != 0 && at->granules >= granules && at->granules / 2 <= granules &&
                        ((uintptr_t)at->base >> PS_GRANULE_SHIFT & (align - 1)) == 0;
        i += at->free != 0;
        best = suffices && (best == NULL || at->granules < best->granules) ? at : best;
    }
    return best;
}

static struct ps_extent *map_long(struct ps_extents *extents, size_t granules, size_t align) {
    struct ps_extent *extent = take_record();
    size_t bytes = granules << PS_GRANULE_SHIFT;
    char *base = extent != NULL ? ps_os_reserve(bytes, align << PS_GRANULE_SHIFT) : NULL;
    struct ps_run *run = base != NULL ? ps_page_cache_adopt(base, granules) : NULL;
    if (run == NULL) {
        if (base != NULL) {
            ps_os_release(base, bytes);
        }
        if (extent != NULL) {
            give_record(extent);
        }
        return NULL;
    }
    ps_huge_advise_mapping(base, bytes);
    *extent = (struct ps_extent){
        .owner = extents, .base = base, .granules = (uint32_t)granules, .is_long = true};
    return extent;
}

static struct ps_run *take_long(struct ps_extents *extents, size_t granules, size_t align,
                                struct ps_extent **found) {
    if (!begin(extents)) {
        return NULL;
    }
    struct ps_extent *extent = find_long_locked(extents, granules, align);
    if (extent != NULL) {
        set_bits(extents, extent, 0, extent->dirty);
        add_used(extents, extent->granules);
    }
    end(extents);
    *found = extent;
    if (extent != NULL) {
        if (ps_page_cache_is_shut) { /* refused: the first access faults */
            (void)ps_os_protect(extent->base, (size_t)extent->granules << PS_GRANULE_SHIFT, true);
        }
        return describe(extent->base, extent->granules, extent->dirty != 0);
    }
    *found = map_long(extents, granules, align);
    if (*found == NULL || !begin(extents)) {
        return NULL;
    }
    enlist(extents, &extents->first_long, *found);
    add_used(extents, granules);
    end(extents);
    return describe((*found)->base, granules, false);
}

struct ps_run *ps_extents_take(struct ps_extents *extents, size_t granules, size_t align_granules,
                               struct ps_extent **extent) {
    PS_CHECK(granules > 0 && granules <= PS_EXTENT_LONG_LIMIT);
    bool is_short =
        granules <= PS_EXTENT_RUN_GRANULES && align_granules <= PS_EXTENT_RUN_GRANULES / 2;
    return is_short ? take_short(extents, granules, align_granules, extent)
                    : take_long(extents, granules, align_granules, extent);
}

/* ---- return ---- */

/* Returns the memory of a long run at once: a page fault for each page that is used again, against
 * a bound for memory that no other allocation of the process can use. */
static bool drop_long(const struct ps_extent *extent) {
    size_t bytes = (size_t)extent->granules << PS_GRANULE_SHIFT;
    bool is_dropped = ps_os_purge(extent->base, bytes);
    if (is_dropped) {
        ps_purge_count(bytes);
    }
    ps_page_cache_shut(extent->base, bytes);
    return is_dropped;
}

void ps_extents_give(struct ps_extent *extent, struct ps_run *run) {
    struct ps_extents *extents = extent->owner;
    size_t granules = run->granules;
    size_t at = (size_t)(run->base - extent->base) >> PS_GRANULE_SHIFT;
    uint64_t mask = extent->is_long ? 1 : mask_of(at, granules);
    bool is_dirty = !extent->is_long || !drop_long(extent);
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE); /* relaxed: free() only classifies by it */
    if (!begin(extents)) {
        return; /* it remains used */
    }
    uint64_t dirty = is_dirty ? extent->dirty | mask : extent->dirty & ~mask;
    set_bits(extents, extent, extent->free | mask, dirty);
    add_used(extents, -(uint64_t)granules);
    extents->hint = extent->is_long ? extents->hint : extent;
    end(extents);
}

static void walk_short(struct ps_extent *extent, void (*visit)(struct ps_slot *slot, void *context),
                       void *context) {
    for (size_t i = 0; i < extent->granules;) {
        struct ps_slot *slot = ps_page_map_slot(extent->base + (i << PS_GRANULE_SHIFT));
        bool is_used = (extent->free >> i & 1) == 0;
        bool is_run = is_used && slot->run.kind != PS_RUN_NONE; /* else a fork has lost it */
        size_t granules = is_run ? slot->run.granules : 1;      /* before the run is returned */
        if (is_run) {
            visit(slot, context);
        }
        i += granules;
    }
}

void ps_extents_walk(struct ps_extents *extents, void (*visit)(struct ps_slot *slot, void *context),
                     void *context) {
    for (struct ps_extent *at = extents->first; at != NULL; at = at->next) {
        walk_short(at, visit, context);
    }
    for (struct ps_extent *at = extents->first_long; at != NULL; at = at->next) {
        if (at->free == 0) {
            visit(ps_page_map_slot(at->base), context);
        }
    }
}

/* ---- the end ---- */

static void return_extent(struct ps_extents *extents, struct ps_extent *extent) {
    size_t bytes = (size_t)extent->granules << PS_GRANULE_SHIFT;
    if (extent->is_long) {
        set_bits(extents, extent, 0, 0);
        if (!ps_os_release(extent->base, bytes)) {
            (void)ps_os_purge(extent->base, bytes); /* the addresses are lost */
        }
    } else {
        bool is_dirty = extent->dirty != 0;
        set_bits(extents, extent, 0, 0);
        struct ps_run *run = describe(extent->base, extent->granules, is_dirty);
        (is_dirty ? ps_page_cache_give : ps_page_cache_give_zero)(run);
    }
    give_record(extent);
}

void ps_extents_empty(struct ps_extents *extents) {
    struct ps_extent *lists[] = {extents->first, extents->first_long};
    extents->first = NULL;
    extents->hint = NULL;
    extents->first_long = NULL;
    for (size_t i = 0; i < 2; i++) {
        for (struct ps_extent *at = lists[i]; at != NULL;) {
            struct ps_extent *next = at->next;
            return_extent(extents, at);
            at = next;
        }
    }
    /* relaxed, both: others read them. */
    ps_store_relaxed(&extents->x_granules, (uint64_t)0);
    ps_store_relaxed(&extents->x_used, (uint64_t)0);
}

void ps_extents_fork_child(void) {
    for (struct ps_extents *at = ps_extents_x_made; at != NULL; at = at->next_made) {
        (void)ps_lock_fork_child(&at->lock);
    }
    (void)ps_lock_fork_child(&spare_lock);
    ps_extents_purge_fork_child();
}
