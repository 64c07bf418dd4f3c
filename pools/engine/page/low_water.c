/* SPDX-License-Identifier: MIT */
/*
 * See low_water.h.
 */
#include "pools/engine/page/low_water.h"

#include "pools/engine/base/bits.h"

#define PAST (PS_LOW_WATER_QUARTERS - 1)

uint64_t ps_low_water_end(struct ps_low_water *marks, uint64_t quarters, uint64_t value) {
    uint64_t low = ps_load_relaxed(&marks->x_current); /* relaxed: see the header */
    uint64_t least = low;
    /* `low` holds for each quarter of the period. */
    for (uint64_t ended = 0; ended < ps_min(quarters, PS_LOW_WATER_QUARTERS); ended++) {
        least = low;
        for (size_t i = 0; i < PAST; i++) {
            least = ps_min(least, marks->past[i]);
        }
        for (size_t i = PAST - 1; i > 0; i--) {
            marks->past[i] = marks->past[i - 1];
        }
        marks->past[0] = low;
    }
    ps_store_relaxed(&marks->x_current, value); /* relaxed: see the header */
    return least;
}

void ps_low_water_lower(struct ps_low_water *marks, uint64_t by) {
    uint64_t low = ps_load_relaxed(&marks->x_current);          /* relaxed: see the header */
    ps_store_relaxed(&marks->x_current, low - ps_min(low, by)); /* relaxed: as above */
    for (size_t i = 0; i < PAST; i++) {
        marks->past[i] -= ps_min(marks->past[i], by);
    }
}
