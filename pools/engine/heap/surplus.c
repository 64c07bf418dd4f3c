/* SPDX-License-Identifier: MIT */
/*
 * See surplus.h. Lock: surplus_lock, protects all state here; a thread that finds it taken skips
 * the work.
 */
#include "pools/engine/heap/surplus.h"

#include "pools/engine/base/bits.h"
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
/* The bound pauses if this part of the purged pages is resident again, and more pages than emptied
 * regions may add, which are dirty as a whole. */
#define REGRET_PAGES ((uint64_t)1024)
#define REGRET_FRACTION 4

/* In the pages of medium blocks; mappings count whole. */
struct usage {
    uint64_t held;  /* resident: in use, or dirty */
    uint64_t dirty; /* free and backed by memory that can be released */
    uint64_t medium_dirty;
    uint64_t cached; /* in freed mappings */
};

static struct ps_lock surplus_lock = PS_LOCK_INIT(PS_RANK_SURPLUS);
static uint64_t last_held;  /* at the end of the last call */
static uint64_t last_dirty; /* likewise */
static uint64_t purged;     /* pages, within the last delay */
static uint64_t taken;      /* pages that became resident since */
static uint64_t purged_ms;  /* time of the last purge */
static uint64_t pause_ms;   /* length of the last pause; 0: none yet */
static uint64_t resumes_ms; /* end of the pause */

static struct usage read_usage(void) {
    struct ps_page_counts runs;
    struct ps_medium_counts medium;
    struct ps_mapping_counts mappings;
    ps_page_cache_count(&runs);
    ps_medium_count(&medium);
    ps_mapping_read(&mappings);
    uint64_t cached = mappings.cached_bytes >> PS_MEDIUM_PAGE_SHIFT;
    uint64_t mapped = cached + (mappings.live_bytes >> PS_MEDIUM_PAGE_SHIFT);
    uint64_t held = (runs.arena_granules - runs.clean_granules) * PS_MEDIUM_GRANULE_PAGES;
    uint64_t medium_dirty = medium.dirty_pages - medium.refused_pages;
    uint64_t runs_dirty = (runs.dirty_granules - runs.stuck_granules) * PS_MEDIUM_GRANULE_PAGES;
    return (struct usage){.held = held - ps_min(held, medium.clean_pages) + mapped,
                          .dirty = runs_dirty + medium_dirty + cached,
                          .medium_dirty = medium_dirty,
                          .cached = cached};
}

static void pause(uint64_t now_ms, uint64_t delay_ms) {
    purged = 0;
    pause_ms =
        ps_min(ps_max(2 * pause_ms, PAUSE_DELAYS_FIRST * delay_ms), PAUSE_DELAYS_MOST * delay_ms);
    resumes_ms = now_ms + pause_ms;
}

/* Pauses if a good part of the pages purged within the delay has become resident again. */
static void notice_regret(const struct usage *usage, uint64_t now_ms, uint64_t delay_ms) {
    if (now_ms - ps_min(now_ms, purged_ms) > delay_ms) {
        purged = 0;
        taken = 0;
    }
    taken += usage->held - ps_min(usage->held, last_held);
    if (purged != 0 && taken > ps_max(REGRET_PAGES, purged / REGRET_FRACTION)) {
        pause(now_ms, delay_ms);
    }
}

/* Mappings come first, since programs take them again most rarely, then runs, which are longer than
 * the holes between medium blocks. Returns the number of released pages. */
static uint64_t release(uint64_t pages, const struct usage *usage) {
    uint64_t done = 0;
    uint64_t step = 1;
    while (step != 0 && done < ps_min(pages, usage->cached)) { /* ends: each step leaves less */
        step = ps_mapping_expire_some() >> PS_MEDIUM_PAGE_SHIFT;
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

static bool apply(uint64_t now_ms, uint64_t delay_ms) {
    struct usage usage = read_usage();
    notice_regret(&usage, now_ms, delay_ms);
    uint64_t used = usage.held - ps_min(usage.held, usage.dirty);
    uint64_t bound = ps_max(used, LEAST_PAGES);
    uint64_t done = 0;
    bool is_behind = false;
    if (usage.dirty > bound + SLACK_PAGES && now_ms >= resumes_ms) {
        uint64_t freed = usage.dirty - ps_min(usage.dirty, last_dirty);
        uint64_t surplus = usage.dirty - bound;
        /* Each page freed raises the surplus by two: less is in use, and more is free. */
        done = release(ps_min(surplus, ps_max(2 * freed, STEP_PAGES)), &usage);
        is_behind = done != 0 && surplus - ps_min(surplus, done) > SLACK_PAGES;
        purged += done;
        purged_ms = now_ms;
        if (done == 0) { /* locked memory; or another thread purges */
            pause(now_ms, delay_ms);
        }
    }
    last_held = usage.held - ps_min(usage.held, done);
    last_dirty = usage.dirty - ps_min(usage.dirty, done);
    return is_behind;
}

bool ps_surplus_tick(uint64_t now_ms) {
    uint32_t delay_ms = ps_retention_delay_ms();
    if (delay_ms == 0 || delay_ms > PS_SURPLUS_DELAY_MOST_MS || !ps_lock_try(&surplus_lock)) {
        return false; /* without a delay, all of it is purged in any case */
    }
    bool is_behind = apply(now_ms, delay_ms);
    ps_lock_release(&surplus_lock);
    return is_behind;
}

void ps_surplus_fork_child(void) { ps_lock_fork_child(&surplus_lock); }
