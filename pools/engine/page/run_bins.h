/* SPDX-License-Identifier: MIT */
/*
 * Free runs by length: a two-level segregated fit as in TLSF (Masmano et al. 2004). Lengths to 32
 * have a bin each, longer ones eight bins per doubling; a bitmap finds the next non-empty bin, so
 * insertion and removal are O(1). No lock here: the page cache calls under its own, whose undo log
 * notes every change. Callers: free_runs.c, page_cache.c.
 */
#ifndef PS_PAGE_RUN_BINS_H
#define PS_PAGE_RUN_BINS_H

#include "pools/engine/base/undo.h"
#include "pools/engine/page/page_map.h"

#define PS_EXACT_BINS 32
#define PS_BIN_COUNT 128 /* 32 exact + 8 x 11 doublings up to 65535 granules, rounded up */

struct ps_run_bins {
    struct ps_run *heads[PS_BIN_COUNT];
    uint64_t filled[PS_BIN_COUNT / 64]; /* bit set == head not NULL */
    uint64_t granules;                  /* total length of the runs here */
};

/* The bins of one sort: runs of plain pages, and of huge ones (is_huge). */
struct ps_run_pair {
    struct ps_run_bins of[2];
};

/* The free runs of a node. Adjacent runs of one sort, kind and node are one run. */
struct ps_run_sorts {
    struct ps_run_pair dirty;
    struct ps_run_pair stuck;
    struct ps_run_pair clean;
};

/* Maximum of words that each of the next two functions notes. */
#define PS_RUN_BINS_UNDO_WORDS 8

/* Inserts a run; marks its first and last slot as free. */
void ps_run_bins_insert(struct ps_run_bins *bins, struct ps_run *run, struct ps_undo *undo);

/* Removes a run; its slots are NONE afterwards. */
void ps_run_bins_remove(struct ps_run_bins *bins, struct ps_run *run, struct ps_undo *undo);

/* A run of at least `granules`, still in its bin, or NULL. */
struct ps_run *ps_run_bins_find(const struct ps_run_bins *bins, size_t granules);

/* The bins of a run, by its sort. */
static inline struct ps_run_bins *ps_run_sorts_bins(struct ps_run_sorts *sorts,
                                                    const struct ps_run *run) {
    struct ps_run_pair *dirty = run->is_stuck ? &sorts->stuck : &sorts->dirty;
    return run->is_dirty ? &dirty->of[run->is_huge] : &sorts->clean.of[run->is_huge];
}

static inline bool ps_run_is_same_sort(const struct ps_run *a, const struct ps_run *b) {
    return a->is_dirty == b->is_dirty && a->is_huge == b->is_huge && a->is_stuck == b->is_stuck &&
           a->node == b->node;
}

static inline uint64_t ps_run_pair_granules(const struct ps_run_pair *pair) {
    return pair->of[0].granules + pair->of[1].granules;
}

/* As ps_run_bins_find, of the wanted kind if possible, else of the other. */
struct ps_run *ps_run_pair_find(const struct ps_run_pair *pair, size_t granules, size_t kind);

/* As ps_run_bins_longest, preferring huge pages. */
struct ps_run *ps_run_pair_longest(const struct ps_run_pair *pair);

/* The longest run, to the precision of a bin, still in its bin, or NULL. */
struct ps_run *ps_run_bins_longest(const struct ps_run_bins *bins);

/* The run after this one in the order of a walk from the longest on, or NULL. */
struct ps_run *ps_run_bins_shorter(const struct ps_run_bins *bins, const struct ps_run *run);

#endif
