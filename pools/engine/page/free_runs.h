/* SPDX-License-Identifier: MIT */
/*
 * Splits free runs, and coalesces them with their neighbours. All functions: under the page lock;
 * they note each changed word in its undo log. Callers: page_cache.c.
 */
#ifndef PS_PAGE_FREE_RUNS_H
#define PS_PAGE_FREE_RUNS_H

#include "pools/engine/base/undo.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/page/run_bins.h"

#include <stdbool.h>
#include <stddef.h>

/* All of them, by node. */
extern PS_HIDDEN struct ps_run_sorts ps_free_runs[PS_NODES + 1];

static inline struct ps_run_bins *ps_free_runs_bins(const struct ps_run *run) {
    return ps_run_sorts_bins(&ps_free_runs[run->node], run);
}

/* Granules in the free runs of all nodes, by sort. */
struct ps_free_granules {
    uint64_t dirty;
    uint64_t stuck;
    uint64_t clean;
};

struct ps_free_granules ps_free_runs_granules(void);

/* The longest dirty or stuck run of any node, to the precision of a bin, preferring huge pages; or
 * NULL. */
struct ps_run *ps_free_runs_longest(bool is_stuck);

static inline struct ps_run *ps_free_runs_at(char *base) { return &ps_page_map_slot(base)->run; }

/* relaxed: a run becomes FREE, or ceases to be, under the page lock only; concurrent stores of
 * tenants to the other kinds are equivalent here. */
static inline uint8_t ps_free_runs_kind_of(const struct ps_run *run) {
    return ps_load_relaxed(&run->kind);
}

static inline char *ps_free_runs_end_of(const struct ps_run *run) {
    return run->base + ((size_t)run->granules << PS_GRANULE_SHIFT);
}

/* Describes [base, base + granules) as a separate clean run. is_huge, node: of its arena. */
struct ps_run *ps_free_runs_describe(char *base, size_t granules, bool is_huge, uint32_t node,
                                     struct ps_undo *undo);

/* Splits a run at `base`; returns the part from there on, of the same sort. */
struct ps_run *ps_free_runs_split(struct ps_run *run, char *base, struct ps_undo *undo);

/* The free run, of any sort, that ends at the start of `run`; that starts at its end; or NULL. */
struct ps_run *ps_free_runs_before(const struct ps_run *run);
struct ps_run *ps_free_runs_after(const struct ps_run *run);

/* Inserts a run, coalesced with neighbours of the same sort; returns the result. */
struct ps_run *ps_free_runs_insert(struct ps_run *run, struct ps_undo *undo);

/* Carves `granules` at an aligned address from a free run, and returns the rest to the bins. */
struct ps_run *ps_free_runs_carve(struct ps_run *run, size_t granules, size_t align_granules,
                                  struct ps_undo *undo);

/* Lengthens a run that is in no bin by `granules` from the start of the free run after it. */
void ps_free_runs_lengthen(struct ps_run *run, struct ps_run *after, size_t granules,
                           struct ps_undo *undo);

/*
 * Lengthens a dirty run of a kind and node to `granules` by clean neighbours, which become dirty.
 * The request then reuses resident memory; a clean run would take all of its memory from the
 * system. Chooses one of the longest runs for which the neighbours suffice; NULL: none of the
 * examined runs has such neighbours.
 */
struct ps_run *ps_free_runs_join(size_t granules, size_t kind, uint32_t node, struct ps_undo *undo);

#endif
