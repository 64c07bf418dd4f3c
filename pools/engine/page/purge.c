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
#define BATCH_SLICES 1024 /* 64 MiB between two looks at the lock */

/* In larger heaps huge pages are not kept apart: the kernel needs a mapping for each that is, of
 * the 65,530 that a process may have. */
#define APART_SLICES_LIMIT ((uint64_t)16 << 30 >> PS_SLICE_SHIFT)

static struct ps_lock purge_lock = PS_LOCK_INIT(PS_RANK_PURGE);
static uint32_t purge_delay_ms;
static uint64_t quarter_ms;
static uint64_t x_next_ms;     /* end of the current quarter */
static uint64_t x_low_current; /* least dirty slices in the current quarter */
static uint64_t low_past[QUARTERS - 1];
static struct ps_run *detached; /* dirty, off the cache: empty whenever no thread purges */
static size_t retry_slices = 1; /* refused ones to try again at the end of a quarter */
static struct ps_purge_counts x_counts;

void ps_purge_start(uint32_t delay_ms) {
    purge_delay_ms = delay_ms;
    quarter_ms = (delay_ms + QUARTERS - 1) / QUARTERS;
}

uint32_t ps_purge_delay_ms(void) { return purge_delay_ms; }

void ps_purge_note_locked(uint64_t dirty_slices) {
    /* relaxed: see the file comment. */
    if (dirty_slices < ps_load_relaxed(&x_low_current)) {
        ps_store_relaxed(&x_low_current, dirty_slices);
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

static bool purge_run(const struct ps_run *run, size_t slices, bool is_apart) {
    size_t bytes = slices << PS_SLICE_SHIFT;
    if (!ps_os_purge(run->base, bytes)) {
        return false;
    }
    if (run->is_huge && is_apart) {
        ps_page_arena_keep_holes(run->base, slices);
    }
    ps_purge_count(bytes);
    return true;
}

/*
 * Purges what is detached, as far as the system allows it. One locked page makes it refuse a range
 * of any length, so a range that is refused is halved, down to a slice, and the next ones double
 * again. Returns how many slices went back.
 */
static uint64_t purge_detached(bool is_apart) {
    uint64_t done = 0;
    size_t piece = PS_RUN_SLICES_LIMIT;
    while (detached != NULL) {
        size_t slices = ps_min(piece, detached->slices);
        if (purge_run(detached, slices, is_apart)) {
            ps_page_cache_attach(&detached, slices, PS_PURGE_DONE);
            done += slices;
            piece = ps_min(2 * piece, PS_RUN_SLICES_LIMIT);
        } else if (slices > 1) {
            piece = slices / 2;
        } else {
            ps_page_cache_attach(&detached, 1, PS_PURGE_REFUSED);
            retry_slices = 1;
        }
    }
    return done;
}

/* Purges about `slices` dirty slices, purge lock held. Returns how many went back. */
static uint64_t purge_slices(uint64_t slices, bool is_apart) {
    uint64_t done = 0;
    while (done < slices) {
        ps_page_cache_detach_dirty(ps_min(slices - done, BATCH_SLICES), &detached);
        if (detached == NULL) {
            break; /* nothing is left that is not refused */
        }
        done += purge_detached(is_apart);
    }
    return done;
}

/* Purge lock held. */
static void count_pages(struct ps_page_counts *counts) {
    while (detached != NULL) { /* in the child of a fork: what its parent was about to purge */
        ps_page_cache_attach(&detached, detached->slices, PS_PURGE_LEFT);
    }
    ps_page_cache_count(counts);
}

/* Ends the current period, `quarters` long, and returns the least of the last four quarters. */
static uint64_t rotate(uint64_t dirty_slices, uint64_t quarters) {
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
    ps_store_relaxed(&x_low_current, dirty_slices); /* relaxed: see the file comment */
    return least;
}

/* What has been purged was idle no longer than that: no mark may count it again. */
static void lower_marks(uint64_t slices) {
    uint64_t low = ps_load_relaxed(&x_low_current);              /* relaxed: see the file comment */
    ps_store_relaxed(&x_low_current, low - ps_min(low, slices)); /* relaxed: as above */
    for (size_t i = 0; i < QUARTERS - 1; i++) {
        low_past[i] -= ps_min(low_past[i], slices);
    }
}

/* Memory that was locked may be so no more: a slice is tried per quarter, and more of them while
 * none is refused. */
static void retry_refused(uint64_t stuck_slices) {
    if (stuck_slices != 0) {
        (void)ps_page_cache_unstick(retry_slices);
        retry_slices = ps_min(4 * retry_slices, PS_RUN_SLICES_LIMIT);
    }
}

static void end_quarter(uint64_t now_ms, uint64_t due_ms) {
    struct ps_page_counts counts;
    count_pages(&counts);
    if (due_ms == 0) {
        return; /* the very first tick only starts the clock */
    }
    uint64_t dirty = counts.dirty_slices - counts.stuck_slices;
    uint64_t idle = dirty;
    retry_refused(counts.stuck_slices);
    if (quarter_ms != 0) {
        idle = rotate(dirty, 1 + (now_ms - due_ms) / quarter_ms);
    }
    if (idle > 0) {
        lower_marks(purge_slices(idle, counts.arena_slices <= APART_SLICES_LIMIT));
    }
}

void ps_purge_tick(uint64_t now_ms) {
    uint64_t due_ms = ps_load_relaxed(&x_next_ms); /* relaxed: a hint, read again under the lock */
    if (now_ms < due_ms || !ps_lock_try(&purge_lock)) {
        return;
    }
    due_ms = ps_load_relaxed(&x_next_ms); /* relaxed: written under the lock only */
    if (now_ms >= due_ms) {
        end_quarter(now_ms, due_ms);
        ps_store_relaxed(&x_next_ms, now_ms + quarter_ms); /* relaxed: as above */
    }
    ps_lock_release(&purge_lock);
}

bool ps_purge_all(size_t keep_bytes) {
    struct ps_page_counts counts;
    uint64_t keep = keep_bytes >> PS_SLICE_SHIFT;
    uint64_t done = 0;
    ps_lock_acquire(&purge_lock);
    while (ps_page_cache_unstick(SIZE_MAX)) { /* ends: nothing is refused meanwhile */
    }
    count_pages(&counts);
    if (counts.dirty_slices > keep) {
        done = purge_slices(counts.dirty_slices - keep, counts.arena_slices <= APART_SLICES_LIMIT);
        lower_marks(done);
    }
    ps_lock_release(&purge_lock);
    return done > 0;
}

void ps_purge_fork_child(void) { ps_lock_fork_child(&purge_lock); }
