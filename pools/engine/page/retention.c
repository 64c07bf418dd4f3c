/* SPDX-License-Identifier: MIT */
/*
 * See retention.h.
 */
#include "pools/engine/page/retention.h"

#include "pools/engine/base/bits.h"

uint32_t ps_retention_x_delay_ms;
uint32_t ps_retention_x_pressure;
uint64_t ps_retention_x_kept_bytes;

void ps_retention_set_delay(uint32_t delay_ms) {
    ps_store_relaxed(&ps_retention_x_delay_ms, delay_ms); /* relaxed: see the header */
}

void ps_retention_keep(uint64_t bytes) {
    ps_store_relaxed(&ps_retention_x_kept_bytes, bytes); /* relaxed: see the header */
}

/* ---- idle parts ---- */

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

/* ---- time for purges ---- */

#define CREDIT_US_LIMIT 16000
#define SHIFT_MOST 3
#define SHIFT_LEAST 1
#define DOUBLES_AT_BYTES ((uint64_t)256 << 20)

void ps_purge_credit_add(struct ps_purge_credit *credit, uint64_t now_ms, uint64_t due_bytes) {
    uint64_t doubled = ps_min(due_bytes / DOUBLES_AT_BYTES, SHIFT_MOST - SHIFT_LEAST);
    uint64_t passed_ms = ps_min(now_ms - ps_min(credit->since_ms, now_ms), CREDIT_US_LIMIT);
    credit->us += (int64_t)(passed_ms * 1000 >> (SHIFT_MOST - doubled));
    credit->us = credit->us < CREDIT_US_LIMIT ? credit->us : CREDIT_US_LIMIT;
    credit->since_ms = now_ms;
}
