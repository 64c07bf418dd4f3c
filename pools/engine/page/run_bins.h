/* SPDX-License-Identifier: MIT */
/*
 * Free runs by length: a two-level segregated fit as in TLSF (Masmano et al. 2004). Lengths to 32
 * have a bin each, longer ones eight per doubling; a bitmap finds the next filled bin, so taking
 * and giving are O(1). No locks: the page cache holds its own, whose undo log notes every change.
 * Callers: page_cache.c.
 */
#ifndef PS_PAGE_RUN_BINS_H
#define PS_PAGE_RUN_BINS_H

#include "pools/engine/base/undo.h"
#include "pools/engine/page/page_map.h"

#define PS_EXACT_BINS 32
#define PS_BIN_COUNT 128 /* 32 exact + 8 x 11 doublings up to 65535 slices, rounded up */

struct ps_run_bins {
    struct ps_run *heads[PS_BIN_COUNT];
    uint64_t filled[PS_BIN_COUNT / 64]; /* bit set == head not NULL */
    uint64_t slices;                    /* sum of the lengths of all runs here */
};

/* Most words that each of the next two notes. */
#define PS_RUN_BINS_UNDO_WORDS 8

/* Enters a run; marks its first and last slot as free. */
void ps_run_bins_insert(struct ps_run_bins *bins, struct ps_run *run, struct ps_undo *undo);

/* Takes a given run out; its slots say nothing afterwards. */
void ps_run_bins_remove(struct ps_run_bins *bins, struct ps_run *run, struct ps_undo *undo);

/* A run of at least `slices`, still in its bin, or NULL. */
struct ps_run *ps_run_bins_find(const struct ps_run_bins *bins, size_t slices);

/* The longest run up to the precision of a bin, still in its bin, or NULL. */
struct ps_run *ps_run_bins_longest(const struct ps_run_bins *bins);

#endif
