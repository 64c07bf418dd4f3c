/* SPDX-License-Identifier: MIT */
/*
 * See purge.h. Lock: purge_lock, taken by the one thread that purges, over the system calls.
 * `detached` links the runs that it purges at the moment, for the child of a fork. The mark of the
 * current quarter is also lowered under the page lock: see retention.h.
 */
#include "pools/engine/page/purge.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"

#define HUGE_GRANULE_US 2
#define PIECE_GRANULES 32
#define ALL_GRANULES 1024 /* detached at a time by ps_purge_all */

static struct ps_lock purge_lock = PS_LOCK_INIT(PS_RANK_PURGE);
static uint64_t x_next_ms;      /* end of the current quarter */
static uint64_t x_due_granules; /* found idle, not purged yet */
static struct ps_purge_credit credit;
static struct ps_low_water low_water; /* of dirty granules that are not refused */
static struct ps_run *detached;       /* dirty, off the cache; empty while no thread purges */
static bool is_apart;                 /* purged huge pages remain split: huge.h */
static size_t retry_granules = 1;     /* refused granules to retry at the end of a quarter */
struct ps_purge_counts ps_purge_x_counts;

void ps_purge_note_locked(uint64_t dirty_granules) {
    ps_low_water_note(&low_water, dirty_granules);
}

void ps_purge_count(uint64_t bytes) {
    ps_add_relaxed(&ps_purge_x_counts.calls, (uint64_t)1); /* relaxed: statistics */
    ps_add_relaxed(&ps_purge_x_counts.bytes, bytes);       /* relaxed: statistics */
    if (!ps_retention_is_usual()) {
        ps_add_relaxed(&ps_purge_x_counts.pressed_bytes, bytes); /* relaxed: statistics */
    }
}

void ps_purge_read(struct ps_purge_counts *out) {
    out->calls = ps_load_relaxed(&ps_purge_x_counts.calls); /* relaxed: statistics */
    out->bytes = ps_load_relaxed(&ps_purge_x_counts.bytes); /* relaxed: statistics */
    out->pressed_bytes =
        ps_load_relaxed(&ps_purge_x_counts.pressed_bytes); /* relaxed: statistics */
}

/* Purges the first granules of the detached run, and returns them to the cache. */
static bool purge_first(size_t granules, bool is_kept_apart) {
    char *base = detached->base;
    size_t bytes = granules << PS_GRANULE_SHIFT;
    bool has_holes = is_kept_apart && ps_huge_is_wanted(detached->is_huge);
    if (!ps_os_purge(base, bytes)) {
        return false;
    }
    if (has_holes) {
        ps_huge_keep_holes(base, granules);
    }
    ps_purge_count(bytes);
    struct ps_free_range range = ps_page_cache_attach(&detached, granules, PS_PURGE_DONE);
    if (has_holes) {
        ps_huge_join_holes(base, granules, range.base, range.granules);
    }
    return true;
}

/* Closes the whole page at the start of the detached run, or returns the part of a page there as
 * refused (hugetlb.h). If that completes a page, together with parts refused before, that one is
 * detached. Returns the number of purged granules. */
static size_t close_first(int64_t *cost_us) {
    bool is_whole;
    char *base = detached->base;
    size_t granules = ps_hugetlb_piece(base, detached->granules, &is_whole);
    if (is_whole && ps_page_cache_close(base)) {
        *cost_us -= (int64_t)granules * HUGE_GRANULE_US;
        ps_purge_count(granules << PS_GRANULE_SHIFT);
        (void)ps_page_cache_attach(&detached, granules, PS_PURGE_DONE);
        return granules;
    }
    *cost_us -= PS_PURGE_CALL_US;
    struct ps_free_range range = ps_page_cache_attach(&detached, granules, PS_PURGE_REFUSED);
    if (!is_whole && ps_hugetlb_has_whole(range.base, range.granules)) {
        ps_page_cache_detach_whole(range.base, &detached);
    }
    retry_granules = 1;
    return 0;
}

/* Amount and bounds of a purge. */
struct goal {
    uint64_t granules;
    size_t piece_granules;
    int64_t cost_us; /* remaining; the purge ends at 0. INT64_MAX: no bound */
    bool is_apart;
};

static int64_t cost_of(const struct ps_run *run, size_t granules) {
    uintptr_t end = (uintptr_t)run->base + (granules << PS_GRANULE_SHIFT);
    if (!ps_huge_is_wanted(run->is_huge)) {
        return (int64_t)granules * PS_PURGE_GRANULE_US;
    }
    bool is_whole = (((uintptr_t)run->base | end) & (PS_HUGE_PAGE_BYTES - 1)) == 0;
    return (int64_t)granules * HUGE_GRANULE_US + (is_whole ? 0 : PS_PURGE_BREAK_US);
}

/*
 * Purges the detached runs, as far as the system and the cost bound permit. One locked page makes
 * the system refuse a range of any length, so a refused range is halved, down to a granule, and the
 * next ones double again. Returns the number of purged granules.
 */
static uint64_t purge_detached(struct goal *goal) {
    uint64_t done = 0;
    size_t piece = goal->piece_granules;
    do {
        if (ps_hugetlb_has(detached)) {
            done += close_first(&goal->cost_us);
            continue;
        }
        size_t granules = ps_min(piece, detached->granules);
        int64_t cost_us = cost_of(detached, granules);
        if (purge_first(granules, goal->is_apart)) {
            done += granules;
            piece = ps_min(2 * piece, goal->piece_granules);
            goal->cost_us -= cost_us;
        } else if (granules > 1) {
            piece = granules / 2;
            goal->cost_us -= PS_PURGE_CALL_US;
        } else {
            (void)ps_page_cache_attach(&detached, 1, PS_PURGE_REFUSED);
            retry_granules = 1;
            goal->cost_us -= PS_PURGE_CALL_US;
        }
    } while (detached != NULL && goal->cost_us > 0);
    return done;
}

/* Returns the remaining detached runs unchanged: those beyond the cost bound, or, in the child of a
 * fork, those that its parent was about to purge. */
static void attach_rest(void) {
    while (detached != NULL) {
        (void)ps_page_cache_attach(&detached, detached->granules, PS_PURGE_LEFT);
    }
}

/* Purges about goal->granules, under the purge lock. Returns the number of purged granules; less if
 * no more are available, the system refuses the rest, or the cost bound is reached. */
static uint64_t purge_granules(struct goal *goal) {
    uint64_t done = 0;
    do {
        ps_page_cache_detach_dirty(ps_min(goal->granules - done, goal->piece_granules), &detached);
        if (detached == NULL) {
            break;
        }
        done += purge_detached(goal);
        attach_rest();
    } while (done < goal->granules && goal->cost_us > 0);
    return done;
}

/* Counts, with all runs back in the cache. Under the purge lock. */
static void count_pages(struct ps_page_counts *counts) {
    attach_rest();
    ps_page_cache_count(counts);
}

/* Retries locked memory, which may have been unlocked: one granule per quarter, and more while none
 * is refused. */
static void retry_refused(uint64_t stuck_granules) {
    if (stuck_granules != 0) {
        (void)ps_page_cache_unstick(retry_granules);
        retry_granules = ps_min(4 * retry_granules, PS_RUN_GRANULES_LIMIT);
    }
}

static void end_quarter(uint64_t now_ms, uint64_t due_ms, uint64_t quarter_ms) {
    struct ps_page_counts counts;
    count_pages(&counts);
    if (due_ms == 0) {
        return; /* the first tick starts the clock */
    }
    uint64_t dirty = counts.dirty_granules - counts.stuck_granules;
    uint64_t idle = dirty;
    if (quarter_ms != 0 || now_ms != due_ms) { /* without a delay, not at each call */
        retry_refused(counts.stuck_granules);
    }
    if (quarter_ms != 0) {
        idle = ps_low_water_end(&low_water, 1 + (now_ms - due_ms) / quarter_ms, dirty);
        idle -= ps_min(idle, ps_retention_kept_bytes() >> PS_GRANULE_SHIFT);
    }
    is_apart = ps_huge_keeps_holes(counts.arena_granules);
    ps_store_relaxed(&x_due_granules, idle); /* relaxed: a hint to threads without the lock */
}

/* Purges one step of the runs that are due. Runs allocated since they were found idle are not. */
static void purge_due(uint64_t now_ms, uint64_t quarter_ms) {
    uint64_t due = ps_load_relaxed(&x_due_granules); /* relaxed: written under the lock only */
    if (quarter_ms != 0) {
        due = ps_min(due, ps_load_relaxed(&low_water.x_current)); /* relaxed: see retention.h */
        ps_purge_credit_add(&credit, now_ms, due << PS_GRANULE_SHIFT);
        if (due != 0 && credit.us <= 0) {
            return;
        }
    }
    int64_t step_us = ps_purge_step_us(due << PS_GRANULE_SHIFT);
    struct goal goal = {.granules = due,
                        .piece_granules = PIECE_GRANULES,
                        .cost_us = step_us,
                        .is_apart = is_apart};
    uint64_t done = due != 0 ? purge_granules(&goal) : 0;
    ps_low_water_lower(&low_water, done);
    credit.us -= quarter_ms != 0 ? step_us - goal.cost_us : 0;
    /* relaxed: a hint to those without the lock. If no run was released, none will be this time.
     */
    ps_store_relaxed(&x_due_granules, done != 0 ? due - ps_min(done, due) : 0);
}

void ps_purge_tick(uint64_t now_ms) {
    uint64_t quarter_ms = ps_low_water_quarter_ms(ps_retention_delay_ms());
    /* relaxed, both: hints, read again under the lock. */
    bool is_due = ps_low_water_is_over(ps_load_relaxed(&x_next_ms), now_ms, quarter_ms) ||
                  ps_load_relaxed(&x_due_granules) != 0;
    if (!is_due || !ps_lock_try(&purge_lock)) {
        return;
    }
    uint64_t due_ms = ps_load_relaxed(&x_next_ms); /* relaxed: written under the lock only */
    if (ps_low_water_is_over(due_ms, now_ms, quarter_ms)) {
        end_quarter(now_ms, ps_min(due_ms, now_ms), quarter_ms);
        ps_store_relaxed(&x_next_ms, now_ms + quarter_ms); /* relaxed: as above */
    }
    if (ps_load_relaxed(&x_due_granules) != 0) { /* relaxed: as above */
        purge_due(now_ms, quarter_ms);
    }
    ps_lock_release(&purge_lock);
}

bool ps_purge_is_behind(void) {
    return ps_load_relaxed(&x_due_granules) != 0; /* relaxed: a hint */
}

uint64_t ps_purge_some(uint64_t granules) {
    if (!ps_lock_try(&purge_lock)) {
        return 0;
    }
    attach_rest();
    struct goal goal = {.granules = granules,
                        .piece_granules = PIECE_GRANULES,
                        .cost_us = ps_purge_step_us(0),
                        .is_apart = is_apart};
    uint64_t done = purge_granules(&goal);
    ps_low_water_lower(&low_water, done);
    ps_lock_release(&purge_lock);
    return done;
}

bool ps_purge_all(size_t keep_bytes) {
    struct ps_page_counts counts;
    uint64_t keep = keep_bytes >> PS_GRANULE_SHIFT;
    uint64_t done = 0;
    ps_lock_acquire(&purge_lock);
    while (ps_page_cache_unstick(SIZE_MAX)) { /* ends: nothing is refused meanwhile */
    }
    count_pages(&counts);
    if (counts.dirty_granules > keep) {
        struct goal goal = {.granules = counts.dirty_granules - keep,
                            .piece_granules = ALL_GRANULES,
                            .cost_us = INT64_MAX,
                            .is_apart = ps_huge_keeps_holes(counts.arena_granules)};
        done = purge_granules(&goal);
        ps_low_water_lower(&low_water, done);
    }
    ps_lock_release(&purge_lock);
    return done > 0;
}

void ps_purge_fork_child(void) { ps_lock_fork_child(&purge_lock); }
