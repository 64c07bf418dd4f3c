/* SPDX-License-Identifier: MIT */
/*
 * See surplus.h. Lock: surplus_lock, protects all state here; a thread that finds it taken skips
 * the work.
 */
#include "pools/engine/heap/surplus.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define PAUSE_DELAYS_FIRST 4
#define PAUSE_DELAYS_MOST 32
#define LEAST_PAGES (PS_SURPLUS_BYTES_LEAST >> PS_MEDIUM_PAGE_SHIFT)
#define STEP_GRANULES ((uint64_t)32)
#define STEP_PAGES (STEP_GRANULES * PS_MEDIUM_GRANULE_PAGES)
#define SLACK_PAGES ((uint64_t)1024) /* beyond the bound, so that purges are rare and long */
/* A bound pauses if this part of the purged pages is resident again, and more pages than emptied
 * regions may add, which are dirty as a whole. */
#define REGRET_PAGES ((uint64_t)1024)
#define REGRET_FRACTION 4

/* In the pages of medium blocks; mappings count whole. */
struct usage {
    uint64_t held;  /* resident: in use, or dirty */
    uint64_t dirty; /* free and backed by memory that can be released */
    uint64_t medium_dirty;
    uint64_t cached;  /* in freed mappings */
    uint64_t holes;   /* in free blocks of slabs */
    uint64_t touched; /* purged pages of slabs that were used again, since the start */
};

/* How much is purged in vain. */
struct regret {
    uint64_t purged;     /* pages, within the last delay */
    uint64_t taken;      /* pages that became resident since */
    uint64_t purged_ms;  /* time of the last purge */
    uint64_t pause_ms;   /* length of the last pause; 0: none yet */
    uint64_t resumes_ms; /* end of the pause */
};

static struct ps_lock surplus_lock = PS_LOCK_INIT(PS_RANK_SURPLUS);
static uint64_t last_held;  /* at the end of the last call */
static uint64_t last_dirty; /* likewise */
static struct regret of_runs;

static uint64_t last_touched;
static uint64_t left_holes; /* that the last pass over slabs has left, or fewer */
static bool is_passing;
static struct regret of_slabs;

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
    uint64_t held = (runs.arena_granules - runs.clean_granules) * PS_MEDIUM_GRANULE_PAGES;
    uint64_t clean = medium.clean_pages + pages_of(slabs.purged_bytes);
    uint64_t medium_dirty = medium.dirty_pages - medium.refused_pages;
    uint64_t runs_dirty = (runs.dirty_granules - runs.stuck_granules) * PS_MEDIUM_GRANULE_PAGES;
    return (struct usage){.held = held - ps_min(held, clean) + mapped,
                          .dirty = runs_dirty + medium_dirty + cached,
                          .medium_dirty = medium_dirty,
                          .cached = cached,
                          .holes = pages_of(slabs.free_bytes),
                          .touched = pages_of(slabs.touched_bytes)};
}

/* Pages that may be free. */
static uint64_t bound_of(const struct usage *usage) {
    uint64_t free = usage->dirty + usage->holes;
    uint64_t used = usage->held - ps_min(usage->held, free);
    return ps_max(used / PS_SURPLUS_USED_FRACTION, LEAST_PAGES);
}

static void pause(struct regret *regret, uint64_t now_ms, uint64_t delay_ms) {
    regret->purged = 0;
    regret->pause_ms = ps_min(ps_max(2 * regret->pause_ms, PAUSE_DELAYS_FIRST * delay_ms),
                              PAUSE_DELAYS_MOST * delay_ms);
    regret->resumes_ms = now_ms + regret->pause_ms;
}

/* Pauses if a good part of the pages purged within the delay has become resident again. */
static void notice(struct regret *regret, uint64_t taken, uint64_t now_ms, uint64_t delay_ms) {
    if (now_ms - ps_min(now_ms, regret->purged_ms) > delay_ms) {
        regret->purged = 0;
        regret->taken = 0;
    }
    regret->taken += taken;
    uint64_t most = ps_max(REGRET_PAGES, regret->purged / REGRET_FRACTION);
    if (regret->purged != 0 && regret->taken > most) {
        pause(regret, now_ms, delay_ms);
    }
}

static void note_purged(struct regret *regret, uint64_t pages, uint64_t now_ms) {
    regret->purged += pages;
    regret->purged_ms = now_ms;
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
    for (step = 1; step != 0 && done + PS_MEDIUM_GRANULE_PAGES <= pages;) { /* ends: as above */
        uint64_t granules = (pages - done) / PS_MEDIUM_GRANULE_PAGES;
        step = ps_purge_some(ps_min(granules, STEP_GRANULES)) * PS_MEDIUM_GRANULE_PAGES;
        done += step;
    }
    uint64_t rest = ps_min(pages - ps_min(pages, done), usage->medium_dirty);
    return rest != 0 ? done + ps_medium_purge_some(rest) : done;
}

static bool bound_runs(const struct usage *usage, uint64_t bound, uint64_t now_ms,
                       uint64_t delay_ms) {
    uint64_t done = 0;
    bool is_behind = false;
    notice(&of_runs, usage->held - ps_min(usage->held, last_held), now_ms, delay_ms);
    if (usage->dirty > bound + SLACK_PAGES && now_ms >= of_runs.resumes_ms) {
        uint64_t freed = usage->dirty - ps_min(usage->dirty, last_dirty);
        uint64_t surplus = usage->dirty - bound;
        /* Each page freed raises the surplus by more than one: less is in use, and more is free. */
        done = release(ps_min(surplus, ps_max(2 * freed, STEP_PAGES)), usage);
        is_behind = done != 0 && surplus - ps_min(surplus, done) > SLACK_PAGES;
        note_purged(&of_runs, done, now_ms);
        if (done == 0) { /* locked memory; or another thread purges */
            pause(&of_runs, now_ms, delay_ms);
        }
    }
    last_held = usage->held - ps_min(usage->held, done);
    last_dirty = usage->dirty - ps_min(usage->dirty, done);
    return is_behind;
}

/* Only a pass over all slabs finds their free pages. The next is due when as much has been freed as
 * may be free. */
static bool bound_slabs(const struct usage *usage, uint64_t bound, uint64_t now_ms,
                        uint64_t delay_ms) {
    uint64_t bytes = 0;
    notice(&of_slabs, usage->touched - ps_min(usage->touched, last_touched), now_ms, delay_ms);
    last_touched = usage->touched;
    left_holes = ps_min(left_holes, usage->holes);
    if (now_ms < of_slabs.resumes_ms) {
        is_passing = false;
    } else if (is_passing || usage->holes > left_holes + bound + SLACK_PAGES) {
        is_passing = ps_store_purge_tick(now_ms, true, &bytes);
        note_purged(&of_slabs, pages_of(bytes), now_ms);
        left_holes = usage->holes - ps_min(usage->holes, pages_of(bytes));
    }
    return is_passing;
}

bool ps_surplus_tick(uint64_t now_ms) {
    uint32_t delay_ms = ps_retention_delay_ms();
    if (delay_ms == 0 || delay_ms > PS_SURPLUS_DELAY_MOST_MS || !ps_lock_try(&surplus_lock)) {
        return false; /* without a delay, all of it is purged in any case */
    }
    struct usage usage = read_usage();
    uint64_t bound = bound_of(&usage);
    bool is_behind = bound_runs(&usage, bound, now_ms, delay_ms);
    is_behind |= bound_slabs(&usage, bound, now_ms, delay_ms);
    ps_lock_release(&surplus_lock);
    return is_behind;
}

void ps_surplus_fork_child(void) { ps_lock_fork_child(&surplus_lock); }
