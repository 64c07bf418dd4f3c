/* SPDX-License-Identifier: MIT */
/*
 * See page_cache.h: takes dirty runs out of the cache for purge.c, and back. Lock:
 * ps_page_cache_lock.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/page/free_runs.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/page_cache.h"

/* Length of a piece of a dirty run to purge: whole huge pages from its start, or a part of one. */
static size_t piece_of(const struct ps_run *run, size_t granules) {
    if (run->granules <= granules) {
        return run->granules;
    }
    if (ps_hugetlb_has(run)) {
        bool is_whole;
        return ps_hugetlb_piece(run->base, run->granules, &is_whole);
    }
    uintptr_t end = (uintptr_t)run->base + (granules << PS_GRANULE_SHIFT);
    uintptr_t whole = ps_round_down(end, PS_HUGE_PAGE_BYTES);
    bool is_cut = ps_huge_is_wanted(run->is_huge) && whole > (uintptr_t)run->base;
    return ((is_cut ? whole : end) - (uintptr_t)run->base) >> PS_GRANULE_SHIFT;
}

static void push_locked(struct ps_run *run, struct ps_run **list) {
    PS_UNDO_NOTE(ps_page_cache_lock.undo, run->next);
    PS_UNDO_NOTE(ps_page_cache_lock.undo, *list);
    run->next = *list;
    *list = run;
}

void ps_page_cache_detach_dirty(size_t granules, struct ps_run **list) {
    ps_lock_acquire(&ps_page_cache_lock);
    while (granules > 0) {
        struct ps_run *run = ps_free_runs_longest(false);
        if (run == NULL) {
            break;
        }
        run = ps_free_runs_carve(run, piece_of(run, granules), 1, ps_page_cache_lock.undo);
        granules -= ps_min(run->granules, granules);
        push_locked(run, list);
        ps_lock_commit(&ps_page_cache_lock);
    }
    ps_lock_release(&ps_page_cache_lock);
}

void ps_page_cache_detach_whole(char *base, struct ps_run **list) {
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_run *run = ps_free_runs_at(base);
    if (ps_free_runs_kind_of(run) == PS_RUN_FREE && run->base == base && run->is_stuck &&
        ps_hugetlb_has_whole(base, run->granules)) {
        push_locked(ps_free_runs_carve(run, ps_hugetlb_granules(), ps_hugetlb_granules(),
                                       ps_page_cache_lock.undo),
                    list);
    }
    ps_lock_release(&ps_page_cache_lock);
}

bool ps_page_cache_close(char *page) {
    ps_lock_acquire(&ps_page_cache_lock);
    bool is_closed = ps_hugetlb_set_closed_locked(page, true, ps_page_cache_lock.undo);
    ps_lock_release(&ps_page_cache_lock);
    if (is_closed && !ps_os_close(page, ps_hugetlb_page_bytes)) {
        ps_lock_acquire(&ps_page_cache_lock);
        (void)ps_hugetlb_set_closed_locked(page, false, ps_page_cache_lock.undo);
        ps_lock_release(&ps_page_cache_lock);
        is_closed = false;
    }
    return is_closed;
}

struct ps_free_range ps_page_cache_attach(struct ps_run **list, size_t granules,
                                          enum ps_purge_result result) {
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_run *run = *list;
    struct ps_run *rest = run->next;
    PS_UNDO_NOTE(ps_page_cache_lock.undo, *list);
    PS_UNDO_NOTE(ps_page_cache_lock.undo, run->next);
    PS_UNDO_NOTE(ps_page_cache_lock.undo, run->kind);
    if (granules < run->granules) {
        rest = ps_free_runs_split(run, run->base + (granules << PS_GRANULE_SHIFT),
                                  ps_page_cache_lock.undo);
        ps_store_relaxed(&rest->kind, (uint8_t)PS_RUN_BUSY); /* relaxed: free() only classifies */
        rest->next = run->next;
    }
    *list = rest;
    run->is_dirty = result != PS_PURGE_DONE;
    run->is_stuck = result == PS_PURGE_REFUSED;
    run = ps_free_runs_insert(run, ps_page_cache_lock.undo);
    struct ps_free_range range = {run->base, run->granules};
    ps_lock_release(&ps_page_cache_lock);
    return range;
}

bool ps_page_cache_unstick(size_t granules) {
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_run *run = ps_free_runs_longest(true);
    if (run != NULL) {
        run = ps_free_runs_carve(run, ps_min(run->granules, granules), 1, ps_page_cache_lock.undo);
        PS_UNDO_NOTE(ps_page_cache_lock.undo, run->kind);
        run->is_stuck = false;
        ps_free_runs_insert(run, ps_page_cache_lock.undo);
    }
    ps_lock_release(&ps_page_cache_lock);
    return run != NULL;
}
