/* SPDX-License-Identifier: MIT */
/*
 * Transfer of whole granules between the page cache and the depot, and mappings for runs that
 * exceed the page cache. No lock of its own: writes only slots of granules that the caller owns.
 * Callers: depot.c, extend.c, decay.c.
 */
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/pages/pages.h"

static size_t x_mapped_bytes;

static void set_kind(struct ps_run *run, enum ps_run_kind kind) {
    /* release: pairs with walks over all slots, and with reads of a neighbour's. */
    ps_store_release(&run->kind, (uint8_t)kind);
}

static struct ps_run *run_at(const char *base) { return &ps_page_map_slot(base)->run; }

/* Makes the granules of a busy run, from the given one on, PS_RUN_PAGES with all pages out. */
static void divide(const struct ps_run *run, size_t from, size_t granules, bool is_mapping) {
    char *base = run->base;
    bool is_huge = run->is_huge;
    for (size_t i = from; i < granules; i++) {
        struct ps_pages_granule *granule = ps_pages_granule_at(base + (i << PS_GRANULE_SHIFT));
        /* relaxed, all three: unused before the kind is set. */
        ps_store_relaxed(&granule->x_free, (uint16_t)0);
        ps_store_relaxed(&granule->run.granules, 1u);
        ps_store_relaxed(&granule->run.back, (uint16_t)0);
        granule->x_dirty = 0;
        granule->order = PS_ORDER_NONE;
        granule->seen_idle = 0;
        granule->is_mapping = is_mapping;
        granule->run.base = base + (i << PS_GRANULE_SHIFT);
        granule->run.is_huge = is_huge;
        granule->run.node = run->node;
        set_kind(&granule->run, PS_RUN_PAGES);
    }
}

static struct ps_run *map(size_t granules, size_t align_granules) {
    size_t bytes = granules << PS_GRANULE_SHIFT;
    char *base = ps_os_reserve(bytes, align_granules << PS_GRANULE_SHIFT);
    if (base == NULL) {
        return NULL;
    }
    struct ps_run *run = ps_page_cache_adopt(base, granules);
    if (run == NULL) {
        ps_os_release(base, bytes);
        return NULL;
    }
    ps_add_relaxed(&x_mapped_bytes, bytes); /* relaxed: a count */
    return run;
}

char *ps_granules_take(size_t granules, size_t align_granules, bool *is_zero) {
    bool is_mapping = granules + align_granules - 1 > PS_RUN_GRANULES_LIMIT;
    bool is_dense = align_granules == 1 && ps_huge_is_dense_chunk(granules);
    struct ps_run *run = is_mapping ? map(granules, align_granules)
                         : is_dense ? ps_page_cache_take_dense(granules)
                                    : ps_page_cache_take(granules, align_granules);
    if (run != NULL && !ps_page_cache_open(run->base, granules << PS_GRANULE_SHIFT)) {
        ps_page_cache_give(run);
        run = NULL;
    }
    if (run == NULL) {
        return NULL;
    }
    *is_zero = !run->is_dirty;
    char *base = run->base;
    divide(run, 0, granules, is_mapping);
    return base;
}

bool ps_granules_extend(struct ps_pages_granule *last, size_t granules, bool *is_zero) {
    bool can_extend = ps_page_cache_extend(&last->run, 1 + granules, is_zero);
    char *added = last->run.base + PS_GRANULE_BYTES;
    if (can_extend && !ps_page_cache_open(added, granules << PS_GRANULE_SHIFT)) {
        ps_page_cache_shrink(&last->run, 1);
        can_extend = false;
    }
    if (can_extend) {
        divide(&last->run, 1, 1 + granules, false);
        ps_store_relaxed(&last->run.granules, 1u); /* relaxed: a walk may step by either */
    }
    return can_extend;
}

size_t ps_granules_mapped_bytes(void) {
    return ps_load_relaxed(&x_mapped_bytes); /* relaxed: a count */
}

/* Unmaps; addresses that the system refuses to unmap become part of the page cache. */
static void unmap(char *base, size_t granules) {
    size_t bytes = granules << PS_GRANULE_SHIFT;
    ps_add_relaxed(&x_mapped_bytes, (size_t)0 - bytes); /* relaxed: a count */
    if (ps_os_release(base, bytes)) {
        ps_purge_count(bytes);
    } else {
        ps_page_cache_keep(base, granules);
    }
}

#define OVERDUE 4

size_t ps_granules_x_limit = SIZE_MAX;

/* Purges free memory beyond the limit, at most about OVERDUE times the granules just freed: while
 * one thread purges, the frees of others purge nothing, and later ones make up for them. */
static PS_COLD void keep_limit(size_t granules, size_t limit) {
    struct ps_page_counts counts;
    uint64_t done;
    uint64_t left = OVERDUE * (uint64_t)granules;
    do { /* ends: each step purges some of the rest */
        ps_page_cache_count(&counts);
        uint64_t dirty = counts.dirty_granules - counts.stuck_granules;
        uint64_t allowed = limit >> PS_GRANULE_SHIFT;
        done = dirty > allowed ? ps_purge_some(ps_min(dirty - allowed, left)) : 0;
        left -= ps_min(done, left);
    } while (done != 0 && left != 0);
}

void ps_granules_give(char *base, size_t granules, bool is_zero) {
    ps_depot_check(base, granules * PS_GRANULE_PAGES);
    bool is_mapping = ps_pages_granule_at(base)->is_mapping;
    for (size_t i = granules; i-- > 0;) {
        set_kind(run_at(base + (i << PS_GRANULE_SHIFT)),
                 i == 0 && !is_mapping ? PS_RUN_BUSY : PS_RUN_NONE);
    }
    if (is_mapping) {
        unmap(base, granules);
        return;
    }
    struct ps_run *run = run_at(base);
    ps_store_relaxed(&run->granules, (uint32_t)granules); /* relaxed: a walk may step by either */
    if (is_zero) {
        ps_page_cache_give_zero(run);
    } else {
        ps_page_cache_give(run);
    }
    size_t limit = ps_load_relaxed(&ps_granules_x_limit); /* relaxed: seen a moment late */
    if (PS_UNLIKELY(limit != SIZE_MAX)) {
        keep_limit(granules, limit);
    }
}

static void release_list(struct ps_run *list, bool is_zero) {
    while (list != NULL) {
        struct ps_run *next = list->next;
        ps_granules_give(list->base, 1, is_zero);
        list = next;
    }
}

void ps_granules_release(const struct ps_released *released) {
    release_list(released->dirty, false);
    release_list(released->zero, true);
}
