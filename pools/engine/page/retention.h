/* SPDX-License-Identifier: MIT */
/*
 * How long and how much free memory is retained: by the page cache, freed mappings, medium blocks,
 * pages of pools. Three values decide: the purge delay, which the program or another process may
 * change; the bytes that swings of free memory need, which heap/surplus.c observes; and the
 * pressure, which heap/limit.c raises while the process is near the limit of its resident memory.
 * Without pressure each answer is the usual one. Callers: page/, heap/, pools/pages. Any thread, no
 * locks.
 *
 * Purgers also compute here how much of their free memory was idle for the whole delay, and how
 * much time a purge may take. Their own locks protect these values.
 */
#ifndef PS_PAGE_RETENTION_H
#define PS_PAGE_RETENTION_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_pressure {
    PS_PRESSURE_NONE,
    PS_PRESSURE_NEAR,  /* from 7/8 of the limit on, or the system is short of memory */
    PS_PRESSURE_CLOSE, /* from 15/16 on */
    PS_PRESSURE_OVER,
};

/* Between two returns of blocks that fronts have not used, and of drained slabs. Sooner while
 * memory is short. */
#define PS_RETENTION_SCAN_MS 250

/* Bound on the memory of quarantined large blocks, unless one has more. The same at any pressure: a
 * program at its limit is checked as any other. */
#define PS_RETENTION_QUARANTINE_BYTES ((size_t)32 << 20)

extern PS_HIDDEN uint32_t ps_retention_x_delay_ms; /* also written from outside */
extern PS_HIDDEN uint32_t ps_retention_x_pressure;
extern PS_HIDDEN uint64_t ps_retention_x_kept_bytes; /* also read from outside */

/* Sets the purge delay, before the page cache is used or at any time. 0: retains nothing. */
void ps_retention_set_delay(uint32_t delay_ms);

/* The purge delay that is set. */
static inline uint32_t ps_retention_usual_delay_ms(void) {
    /* relaxed: a stale value retains, or releases, a little more. */
    return ps_load_relaxed(&ps_retention_x_delay_ms);
}

static inline enum ps_pressure ps_retention_pressure(void) {
    /* relaxed: a stale value retains, or releases, a little more. */
    return (enum ps_pressure)ps_load_relaxed(&ps_retention_x_pressure);
}

static inline bool ps_retention_is_usual(void) {
    return ps_retention_pressure() == PS_PRESSURE_NONE;
}

/* How long unused memory is retained, in ms. */
static inline uint32_t ps_retention_delay_ms(void) {
    return ps_retention_is_usual() ? ps_retention_usual_delay_ms() : 0;
}

/* Sets how much free memory the program's swings need. See heap/surplus.h. */
void ps_retention_keep(uint64_t bytes);

/* The bytes that a purger leaves even if they are due. */
static inline uint64_t ps_retention_kept_bytes(void) {
    /* relaxed: a stale value retains, or releases, a little more. */
    return ps_retention_delay_ms() != 0 ? ps_load_relaxed(&ps_retention_x_kept_bytes) : 0;
}

/* The time between examinations of memory that is retained for another reason; usual_ms without
 * pressure. */
static inline uint64_t ps_retention_interval_ms(uint64_t usual_ms) {
    enum ps_pressure pressure = ps_retention_pressure();
    return pressure == PS_PRESSURE_NONE ? usual_ms : usual_ms >> (pressure + 1);
}

/* The amount that may be released in one step; `usual` without pressure. */
static inline size_t ps_retention_step(size_t usual) {
    return usual * (ps_retention_pressure() + (size_t)1);
}

/* ---- idle parts ---- */

/*
 * The minimum of a count over the last delay, which is divided into four quarters: each records its
 * minimum, and the least of the four was free for the whole delay. See purge.h. The caller's lock
 * protects the marks. ps_low_water_note also lowers the mark of the current quarter, under another
 * lock: both sides use relaxed atomics, because a stale mark delays or advances a purge by at most
 * a quarter.
 */
#define PS_LOW_WATER_QUARTERS 4

struct ps_low_water {
    uint64_t x_current;
    uint64_t past[PS_LOW_WATER_QUARTERS - 1];
};

/* The length of a quarter of a delay; 0: the whole count is due. */
static inline uint64_t ps_low_water_quarter_ms(uint32_t delay_ms) {
    return ((uint64_t)delay_ms + PS_LOW_WATER_QUARTERS - 1) / PS_LOW_WATER_QUARTERS;
}

/* True when the quarter that ends at end_ms is over, or is one of a longer delay than the present.
 * Twice a quarter, because now_ms may be of a moment before another thread began it. */
static inline bool ps_low_water_is_over(uint64_t end_ms, uint64_t now_ms, uint64_t quarter_ms) {
    return quarter_ms == 0 || now_ms >= end_ms || end_ms - now_ms > 2 * quarter_ms;
}

/* Notes that the count has fallen to this value. */
static inline void ps_low_water_note(struct ps_low_water *marks, uint64_t value) {
    if (value < ps_load_relaxed(&marks->x_current)) { /* relaxed: see above */
        ps_store_relaxed(&marks->x_current, value);   /* relaxed: as above */
    }
}

/* Ends a period of `quarters` and begins the next at `value`. Returns the minimum of the last four
 * quarters. */
uint64_t ps_low_water_end(struct ps_low_water *marks, uint64_t quarters, uint64_t value);

/* Purged pages were idle no longer than that: no mark counts them again. */
void ps_low_water_lower(struct ps_low_water *marks, uint64_t by);

/* ---- time for purges ---- */

/*
 * How much of the passing time purging may take: the steps of one purger together take an eighth of
 * it; from 256 MiB on that are due a quarter, from 512 MiB on a half. Unused credit lasts for a
 * while, since a thread that is lightly active makes all its calls in a short time.
 *
 * Credit of one step, by its cost: a system that drops 15 MiB of ordinary pages in a millisecond
 * takes 4 us for a granule, and less if the pages are huge; but to split a huge page takes 40 to
 * 100 us. No clock is read: the usual clock advances while the thread does not run, and would end
 * most steps early on a busy machine. The thread's own clock costs a system call.
 */
#define PS_PURGE_STEP_US 250
#define PS_PURGE_STEP_US_BEHIND 350 /* if much is due */
#define PS_PURGE_BEHIND_BYTES ((uint64_t)64 << 20)
#define PS_PURGE_GRANULE_US 4 /* of ordinary pages */
#define PS_PURGE_BREAK_US 100
#define PS_PURGE_CALL_US 1

struct ps_purge_credit {
    int64_t us; /* a step begins while it is positive, and subtracts its cost */
    uint64_t since_ms;
};

/* Adds credit for the time since the last call. */
void ps_purge_credit_add(struct ps_purge_credit *credit, uint64_t now_ms, uint64_t due_bytes);

/* Credit of the next step. */
static inline int64_t ps_purge_step_us(uint64_t due_bytes) {
    bool is_behind = due_bytes >= PS_PURGE_BEHIND_BYTES;
    return (int64_t)ps_retention_step(is_behind ? PS_PURGE_STEP_US_BEHIND : PS_PURGE_STEP_US);
}

#endif
