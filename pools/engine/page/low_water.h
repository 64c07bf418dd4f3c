/* SPDX-License-Identifier: MIT */
/*
 * The minimum of a count over the last delay, which is divided into four quarters: each keeps the
 * minimum seen in it, and the free part of the whole delay is the least of the four. See purge.h.
 * The caller's lock protects the marks. ps_low_water_note also lowers the mark of the current
 * quarter, under another lock: both sides use relaxed atomics, because a stale mark delays or
 * advances a purge by at most a quarter.
 */
#ifndef PS_PAGE_LOW_WATER_H
#define PS_PAGE_LOW_WATER_H

#include "pools/engine/base/atomic.h"

#include <stdint.h>

#define PS_LOW_WATER_QUARTERS 4

struct ps_low_water {
    uint64_t x_current;
    uint64_t past[PS_LOW_WATER_QUARTERS - 1];
};

/* The length of a quarter of a delay; 0: the whole count is due. */
static inline uint64_t ps_low_water_quarter_ms(uint32_t delay_ms) {
    return ((uint64_t)delay_ms + PS_LOW_WATER_QUARTERS - 1) / PS_LOW_WATER_QUARTERS;
}

/* Notes that the count has fallen to this value. */
static inline void ps_low_water_note(struct ps_low_water *marks, uint64_t value) {
    if (value < ps_load_relaxed(&marks->x_current)) { /* relaxed: see the file comment */
        ps_store_relaxed(&marks->x_current, value);   /* relaxed: as above */
    }
}

/* Ends a period of `quarters` and begins the next at `value`. Returns the minimum of the last four
 * quarters. */
uint64_t ps_low_water_end(struct ps_low_water *marks, uint64_t quarters, uint64_t value);

/* Purged pages were idle no longer than that: no mark counts them again. */
void ps_low_water_lower(struct ps_low_water *marks, uint64_t by);

#endif
