/* SPDX-License-Identifier: MIT */
/*
 * Free arrays of a usual pool: runs of neighbours, on a list for each length. An array is taken
 * from a run of its own length, or cut from a longer one, so that it costs the same whatever the
 * number of free objects. Freeing merges nothing; instead, before the pool would grow, and when
 * enough has been freed since the last time to pay for it, all free objects are entered in a
 * bitmap, and the runs are what lies side by side there. (Tried: merging at once with a bit per
 * object, which is the ordered pool: 4 to 5 times the time. Lists without merging: no bound for a
 * load whose lengths change.) Called by list.c. No locks.
 */
#include "pools/pool/runs.h"
#include "pools/pool/bitmap.h"

#include <string.h>

enum {
    EXACT_SHIFT = 4,  /* 1 << EXACT_SHIFT == PS_POOL_RUNS_EXACT */
    TRIES = 8,        /* runs tried in a list of several lengths */
    TAKEN_APART = 64, /* objects of a run that become single ones at once */
    WORTH_SHIFT = 3,  /* merges when an eighth of all objects has been freed or added */
};

static size_t bin_of(size_t count) {
    if (count < PS_POOL_RUNS_EXACT) {
        return count;
    }
    unsigned power = ps_log2(count);
    size_t bin = PS_POOL_RUNS_EXACT + (power - EXACT_SHIFT) * 2 + ((count >> (power - 1)) & 1);
    return ps_min(bin, PS_POOL_RUNS_BINS - 1);
}

static void push(struct ps_pool_runs *runs, void *array, size_t count) {
    ps_pool_runs_push(runs, array, count, bin_of(count));
}

static struct ps_pool_run *unlink_at(struct ps_pool_runs *runs, size_t bin,
                                     struct ps_pool_run **link) {
    struct ps_pool_run *run = *link;
    *link = run->next;
    if (runs->bins[bin] == NULL) {
        runs->used &= ~((uint32_t)1 << bin);
    }
    return run;
}

static void push_single(struct ps_pool *pool, void *object) {
    struct ps_pool_link *link = (struct ps_pool_link *)object;
    link->next = pool->free;
    pool->free = link;
}

static void put(struct ps_pool *pool, char *array, size_t count) {
    if (count == 1) {
        push_single(pool, array);
    } else if (count != 0) {
        push(pool->runs, array, count);
    }
}

/* Objects become single free ones, the first one on top. */
static void take_apart(struct ps_pool *pool, char *array, size_t count) {
    while (count > 0) {
        count--;
        push_single(pool, array + count * pool->stride);
    }
}

static bool has_record(struct ps_pool *pool) {
    if (pool->runs == NULL) {
        pool->runs = (struct ps_pool_runs *)ps_pool_take_aside(pool, sizeof *pool->runs);
    }
    return pool->runs != NULL;
}

void ps_pool_runs_add(struct ps_pool *pool, void *array, size_t count) {
    if (PS_UNLIKELY(!has_record(pool))) {
        take_apart(pool, (char *)array, count);
        return;
    }
    pool->runs->changed_count += count;
    push(pool->runs, array, count);
}

void *ps_pool_runs_take(struct ps_pool *pool, size_t count) {
    struct ps_pool_runs *runs = pool->runs;
    if (runs == NULL) {
        return NULL;
    }
    size_t bin = bin_of(count);
    struct ps_pool_run **link = &runs->bins[bin];
    for (int tries = 0; *link != NULL && (*link)->count < count; link = &(*link)->next) {
        if (++tries == TRIES) {
            link = &(*link)->next;
            break;
        }
    }
    if (*link == NULL || (*link)->count < count) {
        uint32_t longer =
            bin + 1 < PS_POOL_RUNS_BINS ? runs->used & (~(uint32_t)0 << (bin + 1)) : 0;
        if (longer == 0) {
            return NULL;
        }
        bin = (size_t)__builtin_ctz(longer);
        link = &runs->bins[bin];
    }
    struct ps_pool_run *run = unlink_at(runs, bin, link);
    put(pool, (char *)run + count * pool->stride, run->count - count);
    return run;
}

void *ps_pool_runs_take_one(struct ps_pool *pool) {
    struct ps_pool_runs *runs = pool->runs;
    if (runs == NULL || runs->used == 0) {
        return NULL;
    }
    size_t bin = (size_t)__builtin_ctz(runs->used);
    struct ps_pool_run *run = unlink_at(runs, bin, &runs->bins[bin]);
    size_t count = run->count;
    size_t now = ps_min(count, TAKEN_APART);
    put(pool, (char *)run + now * pool->stride, count - now);
    take_apart(pool, (char *)run + pool->stride, now - 1);
    return run;
}

void ps_pool_runs_note_growth(struct ps_pool *pool, size_t count) {
    if (pool->runs != NULL) {
        pool->runs->changed_count += count;
    }
}

void ps_pool_runs_each(struct ps_pool *pool,
                       bool (*is_kept)(struct ps_pool *pool, void *array, size_t count)) {
    for (size_t bin = 0; pool->runs != NULL && bin < PS_POOL_RUNS_BINS; bin++) {
        struct ps_pool_run **link = &pool->runs->bins[bin];
        while (*link != NULL) {
            if (is_kept(pool, *link, (*link)->count)) {
                link = &(*link)->next;
            } else {
                unlink_at(pool->runs, bin, link);
            }
        }
    }
    if (pool->runs != NULL && pool->runs->used == 0) {
        ps_pool_runs_drop(pool);
    }
}

void ps_pool_runs_drop(struct ps_pool *pool) {
    if (pool->runs != NULL) {
        ps_chunk_give(ps_pool_growth(pool), pool->runs, sizeof *pool->runs);
        pool->runs = NULL;
    }
}

/* ---- merging ---- */

static void mark(struct ps_pool *pool, uint64_t *bits, void *array, size_t count) {
    const struct ps_pool_chunk *chunk = ps_pool_find(pool, array);
    size_t index = ps_pool_index(pool, (size_t)((char *)array - chunk->nodes));
    bits += chunk->found_count;
    while (count > 0) {
        size_t here = ps_min(count, 64 - (index & 63));
        bits[index >> 6] |= ps_pool_mask(index & 63, here);
        index += here;
        count -= here;
    }
}

static void mark_all(struct ps_pool *pool, uint64_t *bits) {
    for (struct ps_pool_link *link = pool->free; link != NULL; link = link->next) {
        mark(pool, bits, link, 1);
    }
    for (size_t bin = 0; bin < PS_POOL_RUNS_BINS; bin++) {
        for (struct ps_pool_run *run = pool->runs->bins[bin]; run != NULL; run = run->next) {
            mark(pool, bits, run, run->count);
        }
    }
}

/* The highest bit below `end` that is set, when `flip` is 0, or clear, when it is all ones; plus
 * one. 0: there is none. */
static size_t last_below(const uint64_t *bits, size_t end, uint64_t flip) {
    while (end > 0) {
        size_t word = (end - 1) >> 6;
        uint64_t ones = (bits[word] ^ flip) & (~(uint64_t)0 >> (63 - ((end - 1) & 63)));
        if (ones != 0) {
            return (word << 6) + 64 - (size_t)__builtin_clzll(ones);
        }
        end = word << 6;
    }
    return 0;
}

/* From the highest to the lowest, so that the lowest are on top. The last run is extended by the
 * unused memory after it. */
static void put_chunk(struct ps_pool *pool, struct ps_pool_chunk *chunk, const uint64_t *bits) {
    size_t end = chunk->carved;
    while ((end = last_below(bits, end, 0)) != 0) {
        size_t first = last_below(bits, end, ~(uint64_t)0);
        if (end == chunk->carved) {
            chunk->carved = first;
            pool->uncarved_count += end - first;
            if (!chunk->is_in_room) {
                ps_pool_room_add(pool, chunk);
            }
        } else {
            put(pool, chunk->nodes + first * pool->stride, end - first);
        }
        end = first;
    }
}

bool ps_pool_runs_merge(struct ps_pool *pool, bool is_urgent) {
    bool is_first = pool->runs == NULL;
    if ((is_first && pool->free == NULL) || !has_record(pool)) {
        return false;
    }
    ps_pool_settle(pool);
    size_t word_count = 0;
    size_t all = 0;
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        chunk->found_count = word_count; /* where its bits begin */
        word_count += (chunk->carved + 63) / 64;
        all += chunk->carved;
    }
    size_t bytes = word_count * sizeof(uint64_t);
    size_t least = is_urgent ? 1 : all >> WORTH_SHIFT;
    bool is_worth = is_first || pool->runs->changed_count >= least;
    uint64_t *bits =
        is_worth && word_count != 0 ? (uint64_t *)ps_pool_take_aside(pool, bytes) : NULL;
    if (bits == NULL) {
        return false;
    }
    mark_all(pool, bits);
    *pool->runs = (struct ps_pool_runs){0};
    pool->free = NULL;
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        put_chunk(pool, chunk, bits + chunk->found_count);
    }
    ps_chunk_give(ps_pool_growth(pool), bits, bytes);
    return true;
}
