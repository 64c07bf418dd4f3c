/* SPDX-License-Identifier: MIT */
/*
 * The least value that a count had in the last delay: the delay is cut into four quarters, each
 * keeps the least value seen in it, and what was free for the whole delay is the least of the four.
 * See purge.h. The caller's lock protects the marks. The mark of the current quarter is also
 * lowered by ps_low_water_note under another lock: both sides use relaxed atomics, since a mark
 * that is a moment old moves a purge by a quarter at most.
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

/* The count has this value now, lower than before. */
static inline void ps_low_water_note(struct ps_low_water *marks, uint64_t value) {
    if (value < ps_load_relaxed(&marks->x_current)) { /* relaxed: see the file comment */
        ps_store_relaxed(&marks->x_current, value);   /* relaxed: as above */
    }
}

/* Ends a period of `quarters` quarters and begins the next at `value`. Returns the least value of
 * the last four quarters. */
uint64_t ps_low_water_end(struct ps_low_water *marks, uint64_t quarters, uint64_t value);

/* Purged pages were idle no longer than that: no mark counts them again. */
void ps_low_water_lower(struct ps_low_water *marks, uint64_t by);

#endif
