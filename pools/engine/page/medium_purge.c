/* SPDX-License-Identifier: MIT */
/*
 * Purges medium pages, see medium.h. Counts due pages for each shard (medium_regions.h), so that no
 * count is common to all. Lock: purge_lock protects all variables here, and `due` of the shards;
 * the mark of their current quarter is also lowered under their own locks: see retention.h.
 * `detached` lists the pages during their purge, for the child of a fork.
 */
#include "pools/engine/page/medium.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/medium_regions.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define PAGES_PER_US (PS_MEDIUM_GRANULE_PAGES / PS_PURGE_GRANULE_US)
#define EMPTY_KEPT 1
#define RETRY_LIMIT 64

static struct ps_lock purge_lock = PS_LOCK_INIT(PS_RANK_MEDIUM_PURGE);
static uint64_t x_next_ms; /* end of the current quarter */
static uint64_t x_due;     /* pages found idle, not purged yet: of all shards */
static struct ps_purge_credit credit;
static bool is_apart;            /* see huge.h */
static size_t retry_regions = 1; /* regions with refused pages to retry at the end of a quarter */

/* The free, dirty pages of a region during their purge, in which they are not free. Empty: region
 * is NULL. Written under the lock of the region's shard, by the purging thread. */
static struct {
    struct ps_medium_region *region;
    uint64_t pages[PS_PAGE_BIT_WORDS];
} detached;

/* Amount and bounds of a purge. */
struct goal {
    uint64_t pages;
    int64_t cost_us; /* remaining; the purge ends at 0. INT64_MAX: no bound */
};

/* ---- pages that are purged ---- */

/* The highest `limit` set bits: the lowest holes are reused first. */
static uint64_t highest_bits(uint64_t bits, size_t limit) {
    for (size_t count = (size_t)__builtin_popcountll(bits); count > limit; count--) {
        bits &= bits - 1;
    }
    return bits;
}

/* Detaches those of the region with the longest hole of a shard, at most `limit`. Returns their
 * number; 0: there are none. */
static size_t detach_dirty(struct ps_medium_shard *shard, size_t limit) {
    size_t pages = 0;
    ps_medium_shard_enter(shard);
    struct ps_medium_region *region = ps_medium_regions_find_dirty(shard);
    if (region != NULL) {
        ps_medium_regions_unlink(shard, region);
        ps_medium_regions_note(shard, &detached.region);
        for (size_t i = PS_PAGE_BIT_WORDS; i-- > 0;) {
            ps_medium_regions_note(shard, &region->free[i]);
            uint64_t bits = highest_bits(region->free[i] & region->dirty[i], limit - pages);
            detached.pages[i] = bits;
            region->free[i] &= ~bits;
            pages += (size_t)__builtin_popcountll(bits);
        }
        region->free_pages = (uint16_t)(region->free_pages - pages);
        region->dirty_free = (uint16_t)(region->dirty_free - pages);
        region->longest = (uint16_t)ps_pages_longest(region->free);
        detached.region = region;
        ps_medium_regions_link(shard, region);
    }
    ps_medium_shard_leave(shard);
    return pages;
}

/* Frees them again; those in `purged` are clean, and the system has refused the others. NULL: it
 * was not asked. */
static void attach(const uint64_t purged[PS_PAGE_BIT_WORDS]) {
    struct ps_medium_region *region = detached.region;
    struct ps_medium_shard *shard = ps_medium_shard_of(region);
    size_t clean = 0;
    size_t dirty = 0;
    ps_medium_shard_enter(shard);
    ps_medium_regions_unlink(shard, region);
    for (size_t i = 0; i < PS_PAGE_BIT_WORDS; i++) {
        ps_medium_regions_note(shard, &region->free[i]);
        ps_medium_regions_note(shard, &region->dirty[i]);
        region->free[i] |= detached.pages[i];
        uint64_t bits = purged != NULL ? purged[i] : 0;
        region->dirty[i] &= ~bits;
        clean += (size_t)__builtin_popcountll(bits);
        dirty += (size_t)__builtin_popcountll(detached.pages[i] & ~bits);
    }
    region->free_pages = (uint16_t)(region->free_pages + clean + dirty);
    region->dirty_free = (uint16_t)(region->dirty_free + dirty);
    region->is_refused = purged != NULL && dirty != 0;
    region->longest = (uint16_t)ps_pages_longest(region->free);
    ps_medium_regions_note(shard, &detached.region);
    detached.region = NULL;
    ps_medium_regions_link(shard, region);
    ps_medium_shard_leave(shard);
}

/* Makes one of a shard's regions with refused pages dirty again, to be retried. Returns false when
 * there is none. */
static bool unstick_in(struct ps_medium_shard *shard) {
    ps_medium_shard_enter(shard);
    struct ps_medium_region *region = ps_medium_regions_find_refused(shard);
    if (region != NULL) {
        ps_medium_regions_unlink(shard, region);
        region->is_refused = 0;
        ps_medium_regions_link(shard, region);
    }
    ps_medium_shard_leave(shard);
    return region != NULL;
}

/* The same of any shard. */
static bool unstick(void) {
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        if (unstick_in(shard)) {
            return true;
        }
    }
    return false;
}

/* ---- the rule ---- */

/* Medium pages per page of the system. */
static size_t os_pages(void) { return ps_max(ps_os_page_bytes() >> PS_MEDIUM_PAGE_SHIFT, 1); }

/* Purges pages [from, to) of the detached ones. If a part is refused (a page is locked), the rest
 * is tried page by page. */
static void purge_hole(size_t from, size_t to, uint64_t *purged, struct goal *goal) {
    const struct ps_run *run = &((struct ps_slot *)detached.region)->run;
    char *base = run->base;
    size_t least = os_pages();
    size_t step = to - from;
    if (ps_hugetlb_has(run)) {
        goal->cost_us -= PS_PURGE_CALL_US;
        retry_regions = 1;
        return;
    }
    for (size_t at = from; at < to;) {
        size_t bytes = step << PS_MEDIUM_PAGE_SHIFT;
        goal->cost_us -= PS_PURGE_CALL_US;
        if (ps_os_purge(base + (at << PS_MEDIUM_PAGE_SHIFT), bytes)) {
            for (size_t i = at / 64; i * 64 < at + step; i++) {
                purged[i] |= ps_pages_mask(i, at, at + step);
            }
            ps_purge_count(bytes);
            goal->cost_us -= (int64_t)(step / PAGES_PER_US);
            at += step;
        } else {
            retry_regions = 1;
            at += step > least ? 0 : step;
            step = least;
        }
    }
}

/* Maximum of pages of one region that a step may detach. */
static size_t limit_of(const struct goal *goal) {
    size_t affordable = ps_min((size_t)goal->cost_us, PS_PAGE_BITS) * PAGES_PER_US;
    return ps_round_up(ps_min(ps_min(goal->pages, affordable), PS_PAGE_BITS), os_pages());
}

/* Purges free dirty pages of one region of a shard. Returns the number of purged pages; *is_any:
 * there were some. */
static size_t purge_region(struct ps_medium_shard *shard, struct goal *goal, bool *is_any) {
    uint64_t purged[PS_PAGE_BIT_WORDS] = {0};
    size_t done = 0;
    *is_any = detach_dirty(shard, limit_of(goal)) != 0;
    if (!*is_any) {
        return 0;
    }
    struct ps_pages_walk walk = ps_pages_walk_start(detached.pages);
    while (ps_pages_walk_next(&walk)) { /* ends: at the last sequence */
        purge_hole(walk.from, walk.to, purged, goal);
    }
    const struct ps_run *run = &((struct ps_slot *)detached.region)->run;
    if (ps_huge_is_wanted(run->is_huge)) {
        goal->cost_us -= PS_PURGE_BREAK_US;
        if (is_apart) {
            ps_huge_keep_holes(run->base, run->granules);
        }
    }
    for (size_t i = 0; i < PS_PAGE_BIT_WORDS; i++) {
        done += (size_t)__builtin_popcountll(purged[i]);
    }
    attach(purged);
    return done;
}

/* Purges pages of a shard. */
static uint64_t purge_shard(struct ps_medium_shard *shard, struct goal *goal) {
    uint64_t done = 0;
    bool is_any = true;
    while (is_any && goal->pages != 0 && goal->cost_us > 0) { /* ends: by its cost at the latest */
        size_t pages = purge_region(shard, goal, &is_any);
        goal->pages -= ps_min(goal->pages, pages);
        done += pages;
    }
    ps_low_water_lower(&shard->low_water, done);
    return done;
}

/* Purges pages of all shards, due or not. */
static uint64_t purge_pages(struct goal *goal) {
    uint64_t done = 0;
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        done += purge_shard(shard, goal);
    }
    ps_medium_drop_empty(EMPTY_KEPT); /* not during the purge, which uses their pages */
    return done;
}

/* Returns, in the child of a fork, the pages that its parent was about to purge. */
static void recover(void) {
    if (detached.region != NULL) {
        attach(NULL);
    }
}

static void prepare(void) {
    struct ps_page_counts pages;
    recover();
    ps_page_cache_count(&pages);
    is_apart = ps_huge_keeps_holes(pages.arena_granules);
}

/* Number of a shard's dirty pages that are not refused. */
static uint64_t count_dirty(struct ps_medium_shard *shard) {
    ps_medium_shard_enter(shard);
    uint64_t dirty = ps_medium_regions_dirty(shard);
    ps_medium_shard_leave(shard);
    return dirty;
}

/* Retries locked memory, which may have been unlocked: one region per quarter, and more while none
 * is refused. */
static void retry_refused(void) {
    size_t tried = 0;
    while (tried < retry_regions && unstick()) {
        tried++;
    }
    retry_regions = tried == 0 ? 1 : ps_min(4 * retry_regions, RETRY_LIMIT);
}

/* Finds the pages that are due after so many quarters; 0: all dirty ones. */
static void find_due(uint64_t quarters) {
    uint64_t kept = quarters == 0 ? 0 : ps_retention_kept_bytes() >> PS_MEDIUM_PAGE_SHIFT;
    uint64_t due = 0;
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        uint64_t dirty = count_dirty(shard);
        uint64_t idle =
            quarters == 0 ? dirty : ps_low_water_end(&shard->low_water, quarters, dirty);
        shard->due = idle - ps_min(idle, kept);
        kept -= ps_min(idle, kept);
        due += shard->due;
    }
    ps_store_relaxed(&x_due, due); /* relaxed: a hint without the lock */
}

static void end_quarter(uint64_t now_ms, uint64_t due_ms, uint64_t quarter_ms) {
    prepare();
    ps_store_relaxed(&x_next_ms, now_ms + quarter_ms); /* relaxed: a hint without the lock */
    if (due_ms == 0) {
        return; /* the first tick starts the clock */
    }
    find_due(quarter_ms == 0 ? 0 : 1 + (now_ms - due_ms) / quarter_ms);
    if (quarter_ms != 0 || now_ms != due_ms) { /* without a delay, not at each call */
        retry_refused();
    }
}

/* A shard's due pages that are still idle: without those allocated since they were found. */
static uint64_t due_of(const struct ps_medium_shard *shard, uint64_t quarter_ms) {
    /* relaxed: see retention.h. */
    return quarter_ms == 0 ? shard->due
                           : ps_min(shard->due, ps_load_relaxed(&shard->low_water.x_current));
}

/* Purges one step of the pages that are due. */
static void purge_due(uint64_t now_ms, uint64_t quarter_ms) {
    uint64_t due = 0;
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        due += due_of(shard, quarter_ms);
    }
    if (quarter_ms != 0) {
        ps_purge_credit_add(&credit, now_ms, due << PS_MEDIUM_PAGE_SHIFT);
        if (due != 0 && credit.us <= 0) {
            return;
        }
    }
    int64_t step_us = ps_purge_step_us(due << PS_MEDIUM_PAGE_SHIFT);
    struct goal goal = {.cost_us = step_us};
    uint64_t rest = 0;
    for (PS_MEDIUM_EACH_SHARD(shard)) {
        goal.pages = due_of(shard, quarter_ms);
        bool has_credit = goal.cost_us > 0;
        uint64_t done = goal.pages != 0 ? purge_shard(shard, &goal) : 0;
        /* If none of its pages was released, none will be this time. */
        shard->due = done != 0 || !has_credit ? shard->due - ps_min(shard->due, done) : 0;
        rest += shard->due;
    }
    if (due != 0) {
        ps_medium_drop_empty(EMPTY_KEPT); /* not during the purge, which uses their pages */
    }
    credit.us -= quarter_ms != 0 ? step_us - goal.cost_us : 0;
    ps_store_relaxed(&x_due, rest); /* relaxed: a hint without the lock */
}

void ps_medium_purge_tick(uint64_t now_ms) {
    uint64_t quarter_ms = ps_low_water_quarter_ms(ps_retention_delay_ms());
    /* relaxed, both: hints, read again under the lock. */
    bool is_due = ps_low_water_is_over(ps_load_relaxed(&x_next_ms), now_ms, quarter_ms) ||
                  ps_load_relaxed(&x_due) != 0;
    if (!is_due || !ps_lock_try(&purge_lock)) {
        return;
    }
    uint64_t due_ms = ps_load_relaxed(&x_next_ms); /* relaxed: written under the lock only */
    if (ps_low_water_is_over(due_ms, now_ms, quarter_ms)) {
        end_quarter(now_ms, ps_min(due_ms, now_ms), quarter_ms);
    }
    if (ps_load_relaxed(&x_due) != 0) { /* relaxed: as above */
        recover();
        purge_due(now_ms, quarter_ms);
    }
    ps_lock_release(&purge_lock);
}

bool ps_medium_purge_is_behind(void) { return ps_load_relaxed(&x_due) != 0; /* relaxed: a hint */ }

uint64_t ps_medium_purge_some(uint64_t pages) {
    if (!ps_lock_try(&purge_lock)) {
        return 0;
    }
    recover();
    struct goal goal = {.pages = pages, .cost_us = ps_purge_step_us(0)};
    uint64_t done = purge_pages(&goal);
    ps_lock_release(&purge_lock);
    return done;
}

bool ps_medium_purge_all(void) {
    ps_medium_drop_empty(0);
    ps_lock_acquire(&purge_lock);
    prepare();
    while (unstick()) { /* ends: nothing is refused meanwhile */
    }
    struct ps_medium_counts counts;
    ps_medium_count(&counts);
    struct goal goal = {.pages = counts.dirty_pages, .cost_us = INT64_MAX};
    uint64_t done = purge_pages(&goal);
    ps_store_relaxed(&x_due, (uint64_t)0); /* relaxed: as above */
    ps_lock_release(&purge_lock);
    return done != 0;
}

void ps_medium_purge_fork_child(void) { ps_lock_fork_child(&purge_lock); }
