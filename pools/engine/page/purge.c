/* SPDX-License-Identifier: MIT */
/*
 * See purge.h. Lock: purge_lock, held by the one thread that purges, over the system calls. What
 * its runs under way are stands in `detached`, where the child of a fork finds them. x_low_current
 * is also written under the page lock (note); both sides use relaxed atomics, since a mark that is
 * a moment old only moves a purge by a quarter.
 */
#include "pools/engine/page/purge.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/page_cache.h"

#define QUARTERS 4

/*
 * What one call may do, by what it costs: a system that drops 15 MiB of ordinary pages in a
 * millisecond takes 4 us for a granule, and less where the pages are huge, if they are; but to
 * break a huge page takes 40 to 100 us. No clock is read, since one that runs on while the thread
 * does not would end most steps early on a busy machine, and the thread's own costs a system call.
 */
#define STEP_US 250
#define STEP_US_BEHIND 350   /* where much is due */
#define BEHIND_GRANULES 1024 /* which is 64 MiB */
#define PLAIN_GRANULE_US 4
#define HUGE_GRANULE_US 2
#define BREAK_US 100
#define REFUSED_US 1
#define PIECE_GRANULES 32

/*
 * Together, the steps take an eighth of the time that passes; from 256 MiB on that are due, a
 * quarter, from 512 MiB on a half. What was not used is kept for a while, since a thread that is
 * lightly active makes its calls all at once.
 */
#define CREDIT_US_LIMIT 16000
#define CREDIT_SHIFT_MOST 3
#define CREDIT_SHIFT_LEAST 1
#define CREDIT_DOUBLES_AT ((uint64_t)256 << 20 >> PS_GRANULE_SHIFT)

#define ALL_GRANULES 1024 /* off the cache at a time where everything is purged */

/* In larger heaps huge pages are not kept apart: the kernel needs a mapping for each that is, of
 * the 65,530 that a process may have. */
#define APART_GRANULES_LIMIT ((uint64_t)16 << 30 >> PS_GRANULE_SHIFT)

static struct ps_lock purge_lock = PS_LOCK_INIT(PS_RANK_PURGE);
static uint32_t purge_delay_ms;
static uint64_t quarter_ms;
static uint64_t x_next_ms;      /* end of the current quarter */
static uint64_t x_due_granules; /* found idle, not purged yet */
static int64_t credit_us;
static uint64_t credit_since_ms; /* when it was last added to */
static uint64_t x_low_current;   /* least dirty granules in the current quarter */
static uint64_t low_past[QUARTERS - 1];
static struct ps_run *detached;   /* dirty, off the cache: empty whenever no thread purges */
static bool is_apart;             /* of what is due: see APART_GRANULES_LIMIT */
static size_t retry_granules = 1; /* refused ones to try again at the end of a quarter */
static struct ps_purge_counts x_counts;

void ps_purge_start(uint32_t delay_ms) {
    purge_delay_ms = delay_ms;
    quarter_ms = (delay_ms + QUARTERS - 1) / QUARTERS;
}

uint32_t ps_purge_delay_ms(void) { return purge_delay_ms; }

void ps_purge_note_locked(uint64_t dirty_granules) {
    /* relaxed: see the file comment. */
    if (dirty_granules < ps_load_relaxed(&x_low_current)) {
        ps_store_relaxed(&x_low_current, dirty_granules);
    }
}

void ps_purge_count(uint64_t bytes) {
    ps_add_relaxed(&x_counts.calls, (uint64_t)1); /* relaxed: statistics */
    ps_add_relaxed(&x_counts.bytes, bytes);       /* relaxed: statistics */
}

void ps_purge_read(struct ps_purge_counts *out) {
    out->calls = ps_load_relaxed(&x_counts.calls); /* relaxed: statistics */
    out->bytes = ps_load_relaxed(&x_counts.bytes); /* relaxed: statistics */
}

static bool purge_run(const struct ps_run *run, size_t granules, bool is_kept_apart) {
    size_t bytes = granules << PS_GRANULE_SHIFT;
    if (!ps_os_purge(run->base, bytes)) {
        return false;
    }
    if (run->is_huge && is_kept_apart) {
        ps_page_arena_keep_holes(run->base, granules);
    }
    ps_purge_count(bytes);
    return true;
}

/* How much is purged. */
struct goal {
    uint64_t granules;
    size_t piece_granules;
    int64_t cost_us; /* left: it ends where this does, INT64_MAX never does */
    bool is_apart;
};

static int64_t cost_of(const struct ps_run *run, size_t granules) {
    uintptr_t end = (uintptr_t)run->base + (granules << PS_GRANULE_SHIFT);
    if (!run->is_huge) {
        return (int64_t)granules * PLAIN_GRANULE_US;
    }
    bool is_whole = (((uintptr_t)run->base | end) & (PS_HUGE_PAGE_BYTES - 1)) == 0;
    return (int64_t)granules * HUGE_GRANULE_US + (is_whole ? 0 : BREAK_US);
}

/*
 * Purges what is detached, as far as the system allows it and the cost. One locked page makes it
 * refuse a range of any length, so a range that is refused is halved, down to a granule, and the
 * next ones double again. Returns how many granules went back.
 */
static uint64_t purge_detached(struct goal *goal) {
    uint64_t done = 0;
    size_t piece = goal->piece_granules;
    do {
        size_t granules = ps_min(piece, detached->granules);
        int64_t cost_us = cost_of(detached, granules);
        if (purge_run(detached, granules, goal->is_apart)) {
            ps_page_cache_attach(&detached, granules, PS_PURGE_DONE);
            done += granules;
            piece = ps_min(2 * piece, goal->piece_granules);
            goal->cost_us -= cost_us;
        } else if (granules > 1) {
            piece = granules / 2;
            goal->cost_us -= REFUSED_US;
        } else {
            ps_page_cache_attach(&detached, 1, PS_PURGE_REFUSED);
            retry_granules = 1;
            goal->cost_us -= REFUSED_US;
        }
    } while (detached != NULL && goal->cost_us > 0);
    return done;
}

/* Back as they were: what would have cost too much, or, in the child of a fork, what its parent was
 * about to purge. */
static void attach_rest(void) {
    while (detached != NULL) {
        ps_page_cache_attach(&detached, detached->granules, PS_PURGE_LEFT);
    }
}

/* Purges about so much, purge lock held. Returns how many granules went back; less when there are
 * no more that the system does not refuse, or the cost would be more. */
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

/* Purge lock held. */
static void count_pages(struct ps_page_counts *counts) {
    attach_rest();
    ps_page_cache_count(counts);
}

/* Ends the current period, `quarters` long, and returns the least of the last four quarters. */
static uint64_t rotate(uint64_t dirty_granules, uint64_t quarters) {
    uint64_t low = ps_load_relaxed(&x_low_current); /* relaxed: see the file comment */
    uint64_t least = low;
    /* `low` holds for every quarter of the period. */
    for (uint64_t ended = 0; ended < ps_min(quarters, QUARTERS); ended++) {
        least = low;
        for (size_t i = 0; i < QUARTERS - 1; i++) {
            least = ps_min(least, low_past[i]);
        }
        for (size_t i = QUARTERS - 2; i > 0; i--) {
            low_past[i] = low_past[i - 1];
        }
        low_past[0] = low;
    }
    ps_store_relaxed(&x_low_current, dirty_granules); /* relaxed: see the file comment */
    return least;
}

/* What has been purged was idle no longer than that: no mark may count it again. */
static void lower_marks(uint64_t granules) {
    uint64_t low = ps_load_relaxed(&x_low_current); /* relaxed: see the file comment */
    ps_store_relaxed(&x_low_current, low - ps_min(low, granules)); /* relaxed: as above */
    for (size_t i = 0; i < QUARTERS - 1; i++) {
        low_past[i] -= ps_min(low_past[i], granules);
    }
}

/* Memory that was locked may be so no more: a granule is tried per quarter, and more of them while
 * none is refused. */
static void retry_refused(uint64_t stuck_granules) {
    if (stuck_granules != 0) {
        (void)ps_page_cache_unstick(retry_granules);
        retry_granules = ps_min(4 * retry_granules, PS_RUN_GRANULES_LIMIT);
    }
}

static void end_quarter(uint64_t now_ms, uint64_t due_ms) {
    struct ps_page_counts counts;
    count_pages(&counts);
    if (due_ms == 0) {
        return; /* the very first tick only starts the clock */
    }
    uint64_t dirty = counts.dirty_granules - counts.stuck_granules;
    uint64_t idle = dirty;
    retry_refused(counts.stuck_granules);
    if (quarter_ms != 0) {
        idle = rotate(dirty, 1 + (now_ms - due_ms) / quarter_ms);
    }
    is_apart = counts.arena_granules <= APART_GRANULES_LIMIT;
    ps_store_relaxed(&x_due_granules, idle); /* relaxed: a hint to those without the lock */
}

/* Adds to the credit what the time since the last call is worth. */
static void add_credit(uint64_t now_ms, uint64_t due_granules) {
    uint64_t doubled =
        ps_min(due_granules / CREDIT_DOUBLES_AT, CREDIT_SHIFT_MOST - CREDIT_SHIFT_LEAST);
    uint64_t passed_ms = ps_min(now_ms - ps_min(credit_since_ms, now_ms), CREDIT_US_LIMIT);
    credit_us += (int64_t)(passed_ms * 1000 >> (CREDIT_SHIFT_MOST - doubled));
    credit_us = credit_us < CREDIT_US_LIMIT ? credit_us : CREDIT_US_LIMIT;
    credit_since_ms = now_ms;
}

/* A step of what is due. What has been needed since it was found idle is not. */
static void purge_due(uint64_t now_ms) {
    uint64_t due = ps_load_relaxed(&x_due_granules); /* relaxed: written under the lock only */
    if (quarter_ms != 0) {
        due = ps_min(due, ps_load_relaxed(&x_low_current)); /* relaxed: see the file comment */
        add_credit(now_ms, due);
        if (due != 0 && credit_us <= 0) {
            return;
        }
    }
    int64_t step_us = due >= BEHIND_GRANULES ? STEP_US_BEHIND : STEP_US;
    struct goal goal = {.granules = due,
                        .piece_granules = PIECE_GRANULES,
                        .cost_us = step_us,
                        .is_apart = is_apart};
    uint64_t done = due != 0 ? purge_granules(&goal) : 0;
    lower_marks(done);
    credit_us -= step_us - goal.cost_us;
    /* relaxed: a hint to those without the lock. Where nothing went back, nothing will this time.
     */
    ps_store_relaxed(&x_due_granules, done != 0 ? due - ps_min(done, due) : 0);
}

void ps_purge_tick(uint64_t now_ms) {
    /* relaxed, both: hints, read again under the lock. */
    bool is_due = now_ms >= ps_load_relaxed(&x_next_ms) || ps_load_relaxed(&x_due_granules) != 0;
    if (!is_due || !ps_lock_try(&purge_lock)) {
        return;
    }
    uint64_t due_ms = ps_load_relaxed(&x_next_ms); /* relaxed: written under the lock only */
    if (now_ms >= due_ms) {
        end_quarter(now_ms, due_ms);
        ps_store_relaxed(&x_next_ms, now_ms + quarter_ms); /* relaxed: as above */
    }
    if (ps_load_relaxed(&x_due_granules) != 0) { /* relaxed: as above */
        purge_due(now_ms);
    }
    ps_lock_release(&purge_lock);
}

bool ps_purge_is_behind(void) {
    return ps_load_relaxed(&x_due_granules) != 0; /* relaxed: a hint */
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
                            .is_apart = counts.arena_granules <= APART_GRANULES_LIMIT};
        done = purge_granules(&goal);
        lower_marks(done);
    }
    ps_lock_release(&purge_lock);
    return done > 0;
}

void ps_purge_fork_child(void) { ps_lock_fork_child(&purge_lock); }
