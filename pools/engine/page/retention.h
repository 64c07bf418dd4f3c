/* SPDX-License-Identifier: MIT */
/*
 * How long free memory stays, and how much of it: the answers for all that keep some, the page
 * cache, freed mappings, medium blocks, what threads keep ready, pages of pools. Two things decide:
 * the purge delay, which is constant after the start, and the pressure, which heap/limit.c raises
 * while the process is near the limit of its resident memory. Without pressure each answer is the
 * usual one. Any thread, no locks.
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

extern PS_HIDDEN uint32_t ps_retention_delay; /* in ms; constant after the start */
extern PS_HIDDEN uint32_t ps_retention_x_pressure;

/* Once, before the page cache is used. delay_ms 0: nothing stays. */
void ps_retention_start(uint32_t delay_ms);

static inline enum ps_pressure ps_retention_pressure(void) {
    /* relaxed: what is a moment old keeps, or releases, a little more. */
    return (enum ps_pressure)ps_load_relaxed(&ps_retention_x_pressure);
}

static inline bool ps_retention_is_usual(void) {
    return ps_retention_pressure() == PS_PRESSURE_NONE;
}

/* How long memory that nothing uses stays, in ms. */
static inline uint32_t ps_retention_delay_ms(void) {
    return ps_retention_is_usual() ? ps_retention_delay : 0;
}

/* How long what stays for another reason waits to be examined; usual_ms without pressure. */
static inline uint64_t ps_retention_interval_ms(uint64_t usual_ms) {
    enum ps_pressure pressure = ps_retention_pressure();
    return pressure == PS_PRESSURE_NONE ? usual_ms : usual_ms >> (pressure + 1);
}

/* How much may be kept of which `usual` is without pressure. */
static inline size_t ps_retention_amount(size_t usual) {
    return usual >> 2 * ps_retention_pressure();
}

/* How much may be released in one step of which `usual` is without pressure. */
static inline size_t ps_retention_step(size_t usual) {
    return usual * (ps_retention_pressure() + (size_t)1);
}

#endif
