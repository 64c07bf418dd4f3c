/* SPDX-License-Identifier: MIT */
/*
 * The record of free arrays of a usual pool, and the inline operations on lists of one length. Used
 * by runs.c, which has the rest, and pool.c. No locks.
 *
 *   bit b of `used` is set <=> bins[b] != NULL
 *   the record is a chunk of the pool's source; without memory for it arrays are taken apart
 */
#ifndef PS_POOL_RUNS_H
#define PS_POOL_RUNS_H

#include "pools/pool/pool.h"

enum {
    PS_POOL_RUNS_EXACT = 16, /* below, each length has a list; from there on two lists a power of
                                two */
    PS_POOL_RUNS_BINS = 32,  /* the last one: of 3072 objects and more */
};

/* In the first objects of a free array, of two at least. */
struct ps_pool_run {
    struct ps_pool_run *next;
    size_t count;
} __attribute__((may_alias));

struct ps_pool_runs {
    uint32_t used;
    size_t changed_count; /* objects freed in arrays, or added, since the last merge */
    struct ps_pool_run *bins[PS_POOL_RUNS_BINS];
};

static inline void ps_pool_runs_push(struct ps_pool_runs *runs, void *array, size_t count,
                                     size_t bin) {
    struct ps_pool_run *run = (struct ps_pool_run *)array;
    *run = (struct ps_pool_run){runs->bins[bin], count};
    runs->bins[bin] = run;
    runs->used |= (uint32_t)1 << bin;
}

/* count: above 1. NULL: there is no free array of just this length on a list of its own. */
static inline void *ps_pool_runs_take_exact(struct ps_pool *pool, size_t count) {
    struct ps_pool_runs *runs = pool->runs;
    if (PS_UNLIKELY(runs == NULL || count >= PS_POOL_RUNS_EXACT)) {
        return NULL;
    }
    struct ps_pool_run *run = runs->bins[count];
    if (PS_LIKELY(run != NULL)) {
        runs->bins[count] = run->next;
        if (run->next == NULL) {
            runs->used &= ~((uint32_t)1 << count);
        }
    }
    return run;
}

/* count: above 1. False: the length has no list of its own, or the record has yet to be made. */
static inline bool ps_pool_runs_add_exact(struct ps_pool *pool, void *array, size_t count) {
    struct ps_pool_runs *runs = pool->runs;
    if (PS_UNLIKELY(runs == NULL || count >= PS_POOL_RUNS_EXACT)) {
        return false;
    }
    runs->changed_count += count;
    ps_pool_runs_push(runs, array, count, count);
    return true;
}

#endif
