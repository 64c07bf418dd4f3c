/* SPDX-License-Identifier: MIT */
/*
 * See surplus.h. Lock: surplus_lock, protects all state here; a thread that finds it taken skips
 * the work.
 */
#include "pools/engine/heap/surplus.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/front.h"
#include "pools/engine/front/store.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define PAUSE_DELAYS 4
#define LEAST_PAGES (PS_SURPLUS_BYTES_LEAST >> PS_MEDIUM_PAGE_SHIFT)
#define STEP_GRANULES ((uint64_t)32)
#define STEP_PAGES (STEP_GRANULES * PS_MEDIUM_GRANULE_PAGES)
#define SLACK_PAGES ((uint64_t)1024) /* beyond the bound, so that purges are rare and long */

#define WINDOWS 4
#define LEARN_MS 50 /* between two readings where no bound applies */
#define REGRET_PAGES (LEAST_PAGES / 2)
#define COSTLY_PAGES (PS_SURPLUS_COSTLY_BYTES >> PS_MEDIUM_PAGE_SHIFT)
#define KEPT_PAGES_LEAST REGRET_PAGES

/* In the pages of medium blocks; mappings count whole. */
struct usage {
    uint64_t resident; /* in use or dirty, mappings apart */
    uint64_t held;     /* the same with mappings */
    uint64_t dirty;    /* free and backed by memory that can be released */
    uint64_t medium_dirty;
    uint64_t cached; /* in freed mappings */
    uint64_t holes;  /* in free blocks of slabs */
};

/* Changes within a quarter of the time in which swings are noticed. */
struct window {
    uint64_t purged; /* pages */
    uint64_t taken;  /* pages purged in any window that are resident again */
    uint64_t free_least;
    uint64_t free_most;
};

static struct ps_lock surplus_lock = PS_LOCK_INIT(PS_RANK_SURPLUS);
static uint64_t last_dirty; /* at the end of the last call */
static uint64_t resumes_ms; /* until then, pages were refused: locked memory */

static uint64_t left_holes; /* that the last pass over slabs has left, or fewer */
static bool is_passing;

static struct window windows[WINDOWS]; /* the present one first */
static uint64_t window_ends_ms;
static uint64_t last_resident;
static uint64_t kept;  /* pages that the swings need */
static bool is_costly; /* without them, for which purgers leave them, too */
static uint64_t x_next_ms;

static uint64_t pages_of(uint64_t bytes) { return bytes >> PS_MEDIUM_PAGE_SHIFT; }

static struct usage read_usage(void) {
    struct ps_page_counts runs;
    struct ps_medium_counts medium;
    struct ps_mapping_counts mappings;
    struct ps_store_usage slabs;
    ps_page_cache_count(&runs);
    ps_medium_count(&medium);
    ps_mapping_read(&mappings);
    ps_store_read_usage(&slabs);
    uint64_t cached = pages_of(mappings.cached_bytes);
    uint64_t mapped = cached + pages_of(mappings.live_bytes);
    uint64_t backed = (runs.arena_granules - runs.clean_granules) * PS_MEDIUM_GRANULE_PAGES;
    uint64_t clean = medium.clean_pages + pages_of(slabs.purged_bytes);
    uint64_t resident = backed - ps_min(backed, clean);
    uint64_t medium_dirty = medium.dirty_pages - medium.refused_pages;
    uint64_t runs_dirty = (runs.dirty_granules - runs.stuck_granules) * PS_MEDIUM_GRANULE_PAGES;
    return (struct usage){.resident = resident,
                          .held = resident + mapped,
                          .dirty = runs_dirty + medium_dirty + cached,
                          .medium_dirty = medium_dirty,
                          .cached = cached,
                          .holes = pages_of(slabs.free_bytes)};
}

/* ---- swings ---- */

static struct window sum_of_windows(void) {
    struct window sum = windows[0];
    for (size_t i = 1; i < WINDOWS; i++) {
        sum.purged += windows[i].purged;
        sum.taken += windows[i].taken;
        sum.free_least = ps_min(sum.free_least, windows[i].free_least);
        sum.free_most = ps_max(sum.free_most, windows[i].free_most);
    }
    return sum;
}

static uint64_t window_ms(void) {
    uint64_t swing_ms = (uint64_t)PS_SURPLUS_SWING_DELAYS * ps_retention_delay_ms();
    return ps_max(ps_min(swing_ms, PS_SURPLUS_SWING_MS) / WINDOWS, 1);
}

/* Begins a window, or several after a silence. */
static void rotate(uint64_t now_ms, uint64_t free) {
    uint64_t ended = 1 + (now_ms - window_ends_ms) / window_ms();
    for (uint64_t n = 0; n < ps_min(ended, WINDOWS); n++) {
        for (size_t i = WINDOWS - 1; i > 0; i--) {
            windows[i] = windows[i - 1];
        }
        windows[0] = (struct window){.free_least = free, .free_most = free};
    }
    window_ends_ms = now_ms + window_ms();
}

/* Retains what the swings of the last windows need. */
static void learn(const struct usage *usage, uint64_t now_ms) {
    uint64_t free = usage->dirty - usage->cached + usage->holes;
    if (now_ms >= window_ends_ms || window_ends_ms - now_ms > window_ms()) { /* a new delay */
        window_ends_ms = ps_min(window_ends_ms, now_ms);
        rotate(now_ms, free);
    }
    struct window *now = &windows[0];
    struct window sum = sum_of_windows();
    uint64_t grown = usage->resident - ps_min(usage->resident, last_resident);
    now->purged += last_resident - ps_min(last_resident, usage->resident);
    now->taken += ps_min(grown, sum.purged - ps_min(sum.purged, sum.taken));
    now->free_least = ps_min(now->free_least, free);
    now->free_most = ps_max(now->free_most, free);
    last_resident = usage->resident;
    sum = sum_of_windows();
    uint64_t swing = ps_max(sum.taken, sum.free_most - sum.free_least);
    bool is_regretted = sum.taken >= REGRET_PAGES;
    kept = is_regretted ? ps_max(kept, ps_min(swing, 2 * sum.taken)) : ps_min(kept, swing);
    kept = kept >= KEPT_PAGES_LEAST ? kept : 0;
    is_costly = sum.taken >= COSTLY_PAGES || (is_costly && kept != 0);
    ps_retention_keep(is_costly ? kept << PS_MEDIUM_PAGE_SHIFT : 0);
}

/* Notes at once what the bound has purged: it may be resident again at the next reading. */
static void note_purged(uint64_t pages) {
    windows[0].purged += pages;
    last_resident -= ps_min(last_resident, pages);
}

/* ---- the bound ---- */

static uint64_t used_of(const struct usage *usage) {
    uint64_t free = usage->dirty + usage->holes;
    return usage->held - ps_min(usage->held, free);
}

/* Pages that may be free. */
static uint64_t bound_of(const struct usage *usage) {
    uint64_t used = used_of(usage);
    return ps_max(used / PS_SURPLUS_USED_FRACTION, LEAST_PAGES) + kept;
}

/* Mappings come first, since programs take them again most rarely, then runs, which are longer than
 * the holes between medium blocks. Returns the number of released pages. */
static uint64_t release(uint64_t pages, const struct usage *usage) {
    uint64_t done = 0;
    uint64_t step = 1;
    while (step != 0 && done < ps_min(pages, usage->cached)) { /* ends: each step leaves less */
        step = pages_of(ps_mapping_expire_some());
        done += step;
    }
    uint64_t unmapped = done;
    for (step = 1; step != 0 && done + PS_MEDIUM_GRANULE_PAGES <= pages;) { /* ends: as above */
        uint64_t granules = (pages - done) / PS_MEDIUM_GRANULE_PAGES;
        step = ps_purge_some(ps_min(granules, STEP_GRANULES)) * PS_MEDIUM_GRANULE_PAGES;
        done += step;
    }
    uint64_t rest = ps_min(pages - ps_min(pages, done), usage->medium_dirty);
    done += rest != 0 ? ps_medium_purge_some(rest) : 0;
    note_purged(done - unmapped);
    return done;
}

static bool bound_runs(const struct usage *usage, uint64_t bound, uint64_t now_ms) {
    uint64_t done = 0;
    bool is_behind = false;
    if (usage->dirty > bound + SLACK_PAGES && now_ms >= resumes_ms) {
        uint64_t freed = usage->dirty - ps_min(usage->dirty, last_dirty);
        uint64_t surplus = usage->dirty - bound;
        /* Each page freed raises the surplus by more than one: less is in use, and more is free. */
        done = release(ps_min(surplus, ps_max(2 * freed, STEP_PAGES)), usage);
        is_behind = done != 0 && surplus - ps_min(surplus, done) > SLACK_PAGES;
        if (done == 0) { /* locked memory; or another thread purges */
            resumes_ms = now_ms + (uint64_t)PAUSE_DELAYS * ps_retention_delay_ms();
        }
    }
    last_dirty = usage->dirty - ps_min(usage->dirty, done);
    return is_behind;
}

/* Only a pass over all slabs finds their free pages. The next is due when as much has been freed as
 * may be free. */
static bool bound_slabs(const struct usage *usage, uint64_t bound, uint64_t now_ms) {
    uint64_t bytes = 0;
    left_holes = ps_min(left_holes, usage->holes);
    if (is_passing || usage->holes > left_holes + bound + SLACK_PAGES) {
        is_passing = ps_store_purge_tick(now_ms, true, &bytes);
        left_holes = usage->holes - ps_min(usage->holes, pages_of(bytes));
        note_purged(pages_of(bytes));
    }
    return is_passing;
}

bool ps_surplus_tick(uint64_t now_ms, bool is_bounded) {
    uint32_t delay_ms = ps_retention_delay_ms();
    bool is_due = is_bounded || now_ms >= ps_load_relaxed(&x_next_ms); /* relaxed: a hint */
    if (delay_ms == 0 || !is_due || !ps_lock_try(&surplus_lock)) {
        return false; /* without a delay, all of it is purged in any case */
    }
    bool is_behind = false;
    struct usage usage = read_usage();
    learn(&usage, now_ms);
    ps_front_set_budget(used_of(&usage) << PS_MEDIUM_PAGE_SHIFT);
    if (is_bounded && delay_ms <= PS_SURPLUS_DELAY_MOST_MS) {
        uint64_t bound = bound_of(&usage);
        is_behind = bound_runs(&usage, bound, now_ms);
        is_behind |= bound_slabs(&usage, bound, now_ms);
    }
    ps_store_relaxed(&x_next_ms, now_ms + LEARN_MS); /* relaxed: a hint */
    ps_lock_release(&surplus_lock);
    return is_behind;
}

void ps_surplus_fork_child(void) { ps_lock_fork_child(&surplus_lock); }
