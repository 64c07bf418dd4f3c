/* SPDX-License-Identifier: MIT */
/*
 * See run_bins.h.
 */
#include "pools/engine/page/run_bins.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#define SCAN_LIMIT 8 /* runs examined in the bin where some are too short */

/* The bin for runs of this length. */
static size_t bin_of(size_t granules) {
    if (granules <= PS_EXACT_BINS) {
        return granules - 1;
    }
    unsigned order = ps_log2(granules);
    return PS_EXACT_BINS + (order - 5) * 8 + ((granules >> (order - 3)) & 7);
}

static struct ps_run *last_slot_run(const struct ps_run *run) {
    return &ps_page_map_slot(run->base + ((size_t)run->granules - 1) * PS_GRANULE_BYTES)->run;
}

void ps_run_bins_insert(struct ps_run_bins *bins, struct ps_run *run, struct ps_undo *undo) {
    size_t bin = bin_of(run->granules);
    struct ps_run *last = last_slot_run(run);
    PS_UNDO_NOTE(undo, run->next);
    PS_UNDO_NOTE(undo, run->prev);
    PS_UNDO_NOTE(undo, run->kind);
    PS_UNDO_NOTE(undo, last->back);
    PS_UNDO_NOTE(undo, bins->heads[bin]);
    PS_UNDO_NOTE(undo, bins->filled[bin / 64]);
    PS_UNDO_NOTE(undo, bins->granules);
    ps_store_relaxed(&last->kind, (uint8_t)PS_RUN_FREE); /* relaxed: free() only classifies by it */
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_FREE);  /* relaxed: as above */
    last->back = (uint16_t)(run->granules - 1);
    run->prev = NULL;
    run->next = bins->heads[bin];
    if (run->next != NULL) {
        PS_UNDO_NOTE(undo, run->next->prev);
        run->next->prev = run;
    }
    bins->heads[bin] = run;
    bins->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
    bins->granules += run->granules;
}

void ps_run_bins_remove(struct ps_run_bins *bins, struct ps_run *run, struct ps_undo *undo) {
    size_t bin = bin_of(run->granules);
    struct ps_run *last = last_slot_run(run);
    PS_CHECK(run->kind == PS_RUN_FREE && last->back == run->granules - 1);
    PS_UNDO_NOTE(undo, run->kind);
    PS_UNDO_NOTE(undo, last->kind);
    PS_UNDO_NOTE(undo, bins->granules);
    if (run->prev != NULL) {
        PS_UNDO_NOTE(undo, run->prev->next);
        run->prev->next = run->next;
    } else {
        PS_UNDO_NOTE(undo, bins->heads[bin]);
        bins->heads[bin] = run->next;
        if (run->next == NULL) {
            PS_UNDO_NOTE(undo, bins->filled[bin / 64]);
            bins->filled[bin / 64] &= ~((uint64_t)1 << (bin % 64));
        }
    }
    if (run->next != NULL) {
        PS_UNDO_NOTE(undo, run->next->prev);
        run->next->prev = run->prev;
    }
    ps_store_relaxed(&last->kind, (uint8_t)PS_RUN_NONE); /* relaxed: free() only classifies by it */
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE);  /* relaxed: as above */
    bins->granules -= run->granules;
}

/* The first non-empty bin at or after `bin`, or PS_BIN_COUNT. */
static size_t next_filled(const struct ps_run_bins *bins, size_t bin) {
    uint64_t word = bins->filled[bin / 64] & (~(uint64_t)0 << (bin % 64));
    for (size_t index = bin / 64;;) {
        if (word != 0) {
            return index * 64 + (size_t)__builtin_ctzll(word);
        }
        if (++index == PS_BIN_COUNT / 64) {
            return PS_BIN_COUNT;
        }
        word = bins->filled[index];
    }
}

struct ps_run *ps_run_bins_find(const struct ps_run_bins *bins, size_t granules) {
    size_t bin = bin_of(granules);
    if (granules > PS_EXACT_BINS) {
        struct ps_run *run = bins->heads[bin];
        for (int looked = 0; run != NULL && looked < SCAN_LIMIT; looked++, run = run->next) {
            if (run->granules >= granules) {
                return run;
            }
        }
        bin++;
    }
    if (bin >= PS_BIN_COUNT) {
        return NULL;
    }
    bin = next_filled(bins, bin);
    return bin == PS_BIN_COUNT ? NULL : bins->heads[bin];
}

/* The first run of the last non-empty bin before `bin`, or NULL. */
static struct ps_run *last_before(const struct ps_run_bins *bins, size_t bin) {
    for (size_t index = (bin + 63) / 64; index-- > 0;) {
        uint64_t mask =
            bin - index * 64 < 64 ? ((uint64_t)1 << (bin - index * 64)) - 1 : ~(uint64_t)0;
        uint64_t word = bins->filled[index] & mask;
        if (word != 0) {
            return bins->heads[index * 64 + 63 - (size_t)__builtin_clzll(word)];
        }
    }
    return NULL;
}

struct ps_run *ps_run_bins_longest(const struct ps_run_bins *bins) {
    return last_before(bins, PS_BIN_COUNT);
}

struct ps_run *ps_run_bins_shorter(const struct ps_run_bins *bins, const struct ps_run *run) {
    return run->next != NULL ? run->next : last_before(bins, bin_of(run->granules));
}

struct ps_run *ps_run_pair_find(const struct ps_run_pair *pair, size_t granules, size_t kind) {
    struct ps_run *run = ps_run_bins_find(&pair->of[kind], granules);
    return run != NULL ? run : ps_run_bins_find(&pair->of[1 - kind], granules);
}

struct ps_run *ps_run_pair_longest(const struct ps_run_pair *pair) {
    struct ps_run *run = ps_run_bins_longest(&pair->of[1]);
    return run != NULL ? run : ps_run_bins_longest(&pair->of[0]);
}
