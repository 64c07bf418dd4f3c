/* SPDX-License-Identifier: MIT */
/*
 * See free_runs.h.
 */
#include "pools/engine/page/free_runs.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"

#define COALESCE_LIMIT 65535 /* `back` has 16 bits, so coalescing stops at 4 GiB */
#define JOIN_TRIES 8

PS_SPARSE struct ps_run_sorts ps_free_runs[PS_NODES + 1];

struct ps_run *ps_free_runs_describe(char *base, size_t granules, bool is_huge, uint32_t node,
                                     struct ps_undo *undo) {
    struct ps_run *run = ps_free_runs_at(base);
    PS_UNDO_NOTE(undo, run->kind); /* other fields are ignored inside of a run */
    run->base = base;
    run->granules = (uint32_t)granules;
    run->is_dirty = false;
    run->is_huge = is_huge;
    run->is_stuck = false;
    run->node = node & PS_NODE_APART;
    run->back = 0;
    return run;
}

struct ps_run *ps_free_runs_split(struct ps_run *run, char *base, struct ps_undo *undo) {
    size_t kept = (size_t)(base - run->base) >> PS_GRANULE_SHIFT;
    struct ps_run *rest =
        ps_free_runs_describe(base, run->granules - kept, run->is_huge, run->node, undo);
    rest->is_dirty = run->is_dirty;
    rest->is_stuck = run->is_stuck;
    PS_UNDO_NOTE(undo, run->granules);
    run->granules = (uint32_t)kept;
    return rest;
}

struct ps_run *ps_free_runs_before(const struct ps_run *run) {
    struct ps_run *last = ps_free_runs_at(run->base - 1);
    return ps_free_runs_kind_of(last) == PS_RUN_FREE
               ? ps_free_runs_at(run->base - ((size_t)last->back + 1) * PS_GRANULE_BYTES)
               : NULL;
}

struct ps_run *ps_free_runs_after(const struct ps_run *run) {
    struct ps_run *after = ps_free_runs_at(ps_free_runs_end_of(run));
    return ps_free_runs_kind_of(after) == PS_RUN_FREE && after->base == ps_free_runs_end_of(run)
               ? after
               : NULL;
}

struct ps_run *ps_free_runs_insert(struct ps_run *run, struct ps_undo *undo) {
    struct ps_run_bins *bins = ps_free_runs_bins(run);
    struct ps_run *before = ps_free_runs_before(run);
    if (before != NULL && ps_run_is_same_sort(before, run) &&
        before->granules + run->granules <= COALESCE_LIMIT) {
        ps_run_bins_remove(bins, before, undo);
        before->granules += run->granules;
        PS_UNDO_NOTE(undo, run->kind);
        ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE); /* relaxed: free() only classifies */
        run = before;
    }
    struct ps_run *after = ps_free_runs_after(run);
    if (after != NULL && ps_run_is_same_sort(after, run) &&
        after->granules + run->granules <= COALESCE_LIMIT) {
        ps_run_bins_remove(bins, after, undo);
        PS_UNDO_NOTE(undo, run->granules);
        run->granules += after->granules;
    }
    ps_run_bins_insert(bins, run, undo);
    return run;
}

struct ps_run *ps_free_runs_carve(struct ps_run *run, size_t granules, size_t align_granules,
                                  struct ps_undo *undo) {
    struct ps_run_bins *bins = ps_free_runs_bins(run);
    ps_run_bins_remove(bins, run, undo);
    char *base = (char *)ps_round_up((uintptr_t)run->base, align_granules << PS_GRANULE_SHIFT);
    if (base != run->base) {
        struct ps_run *head = run;
        run = ps_free_runs_split(head, base, undo);
        ps_run_bins_insert(bins, head, undo);
    }
    if (run->granules != granules) {
        ps_run_bins_insert(
            bins, ps_free_runs_split(run, base + (granules << PS_GRANULE_SHIFT), undo), undo);
    }
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_BUSY); /* relaxed: free() only classifies by it */
    return run;
}

void ps_free_runs_lengthen(struct ps_run *run, struct ps_run *after, size_t granules,
                           struct ps_undo *undo) {
    struct ps_run *piece = ps_free_runs_carve(after, granules, 1, undo);
    ps_store_relaxed(&piece->kind, (uint8_t)PS_RUN_NONE); /* relaxed: free() only classifies */
    PS_UNDO_NOTE(undo, run->granules);
    run->granules += (uint32_t)granules;
}

/* ---- runs of all nodes ---- */

struct ps_free_granules ps_free_runs_granules(void) {
    struct ps_free_granules sum = {0};
    for (PS_NODE_EACH(node)) {
        sum.dirty += ps_run_pair_granules(&ps_free_runs[node].dirty);
        sum.stuck += ps_run_pair_granules(&ps_free_runs[node].stuck);
        sum.clean += ps_run_pair_granules(&ps_free_runs[node].clean);
    }
    return sum;
}

struct ps_run *ps_free_runs_longest(bool is_stuck) {
    struct ps_run *longest = NULL;
    for (PS_NODE_EACH(node)) {
        const struct ps_run_sorts *sorts = &ps_free_runs[node];
        struct ps_run *run = ps_run_pair_longest(is_stuck ? &sorts->stuck : &sorts->dirty);
        if (run != NULL && (longest == NULL || run->granules > longest->granules)) {
            longest = run;
        }
    }
    return longest;
}

/* ---- dirty runs with clean neighbours ---- */

/* The clean run, of the kind and node of a dirty one, that a neighbour is; NULL: it is none. */
static struct ps_run *clean_like(const struct ps_run *dirty, struct ps_run *neighbour) {
    return neighbour != NULL && !neighbour->is_dirty && neighbour->is_huge == dirty->is_huge &&
                   neighbour->node == dirty->node
               ? neighbour
               : NULL;
}

static size_t granules_of(const struct ps_run *run) { return run != NULL ? run->granules : 0; }

/* Lengthens a dirty run by the end of the clean run before it; returns the new head. */
static struct ps_run *add_before(struct ps_run *dirty, struct ps_run *before, size_t granules,
                                 struct ps_undo *undo) {
    struct ps_run_bins *bins = ps_free_runs_bins(before);
    ps_run_bins_remove(bins, before, undo);
    struct ps_run *head = before;
    if (granules != before->granules) {
        head = ps_free_runs_split(before, dirty->base - (granules << PS_GRANULE_SHIFT), undo);
        ps_run_bins_insert(bins, before, undo);
    }
    PS_UNDO_NOTE(undo, dirty->kind);
    ps_store_relaxed(&dirty->kind,
                     (uint8_t)PS_RUN_NONE); /* relaxed: free() only classifies by it */
    head->granules = (uint32_t)granules + dirty->granules;
    head->is_dirty = true;
    return head;
}

struct ps_run *ps_free_runs_join(size_t granules, size_t kind, uint32_t node,
                                 struct ps_undo *undo) {
    struct ps_run_bins *bins = &ps_free_runs[node].dirty.of[kind];
    struct ps_run *run = ps_run_bins_longest(bins);
    for (int tried = 0; run != NULL && tried < JOIN_TRIES; tried++) {
        struct ps_run *before = clean_like(run, ps_free_runs_before(run));
        struct ps_run *after = clean_like(run, ps_free_runs_after(run));
        size_t missing = granules - ps_min(run->granules, granules);
        if (missing != 0 && granules_of(before) + granules_of(after) >= missing) {
            ps_run_bins_remove(bins, run, undo);
            size_t behind = ps_min(missing, granules_of(after));
            if (behind != 0) {
                ps_free_runs_lengthen(run, after, behind, undo);
            }
            if (behind != missing) {
                run = add_before(run, before, missing - behind, undo);
            }
            ps_run_bins_insert(bins, run, undo);
            return run;
        }
        run = ps_run_bins_shorter(bins, run);
    }
    return NULL;
}
