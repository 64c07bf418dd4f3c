/* SPDX-License-Identifier: MIT */
/*
 * The sampled heap profile: the memory that each call site allocates, and its live memory. It is a
 * part of the plain mode, which samples while demand.h says so: for POOLSHIM_PROFILE, for a tracer
 * at the probes of os/probe.h, or for another process.
 *
 * About one allocation per `interval_bytes` is sampled, by a Poisson process over the allocated
 * bytes: a block of b bytes with probability 1 - exp(-b / interval). Its stack is stored, and it
 * counts for as many blocks as the inverse of that, so that every sum is unbiased. Bytes are those
 * of the blocks, with rounding. (The method is tcmalloc's.)
 *
 *   small     the fast path of malloc counts bytes down, and is left at the right request. The
 *             sample is not a block of the class but pages of a medium region, which have no tag:
 *             its free takes the slow path by the compare that is there already
 *   medium    counted at the slow path; a sampled one gets the same mark
 *   large     likewise; each free of one searches the table
 *   of heaps  a sampled small block of a partition (heap/partition_path.h) is a run of it, and is
 *             as a large one; its innermost site is the heap
 *
 * A realloc that changes a block above the classes in place counts as a free and an allocation.
 * Calls of threads that have not begun, or have ended, are not sampled.
 *
 * The table (table.c) stores the stacks and the live samples in memory of its own, of bounded size.
 * A stack that does not fit is counted for the first one, which has no sites; a sample that does
 * not fit is counted as allocated and freed at once.
 *
 * A site is an address of code, or a line record: a file, a function and a line of an interpreted
 * program, which code has no address for. The engine knows no language; the trace hook makes them.
 *
 * Callers: the mode's hooks and entry points (modes.c); the shim reads. Any thread. Lock:
 * PS_RANK_PROFILE, for the table; no stack is taken and no block allocated under it.
 */
#ifndef PS_PROFILE_PROFILE_H
#define PS_PROFILE_PROFILE_H

#include "pools/engine/base/config.h"
#include "pools/engine/heap/mode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_PROFILE_FRAMES 64 /* of a stack, the innermost */

struct ps_profile_settings {
    size_t x_interval_bytes; /* as configured; 0: the mode is another than the plain one */
    uint32_t seed;
};

/* Written at start; the interval also by ps_demand_set_interval. */
extern PS_HIDDEN struct ps_profile_settings ps_profile_settings;

/* Sums over samples, each multiplied by its weight. */
struct ps_profile_sums {
    uint64_t made_weight; /* blocks, in units of 1/PS_DRAW_WEIGHT_ONE */
    uint64_t made_bytes;
    uint64_t live_weight;
    uint64_t live_bytes;
};

/* Live memory of a stack, of samples of the last period alone. number: of the period, or of the
 * peak at which that was so; where it is not the last one's, a stack has not changed since. */
struct ps_profile_mark {
    uint64_t live_weight;
    uint64_t live_bytes;
    uint64_t number;
};

/* A line of a program that an interpreter runs. The texts have no terminator. */
struct ps_profile_line {
    const char *file;
    const char *function;
    size_t file_bytes;
    size_t function_bytes;
    uint32_t number; /* 0: not known */
};

#define PS_PROFILE_TEXT_BYTES 255 /* of a file, or of a function */

/* The site of a line record: a bit that no address of code has, and the offset of its record in the
 * table. */
#define PS_PROFILE_LINE_SITE ((uintptr_t)1 << 63)
#define PS_PROFILE_LINE_LIMIT ((uintptr_t)1 << 40)

static inline bool ps_profile_is_line(uintptr_t site) {
    return site - PS_PROFILE_LINE_SITE < PS_PROFILE_LINE_LIMIT;
}

/* The site of a line, the same each time; 0: no room, or a text is longer than
 * PS_PROFILE_TEXT_BYTES. Any thread. Cost: a hash; the table's lock for a new one. */
uintptr_t ps_profile_line_site(const struct ps_profile_line *line);

/* The line of such a site. The texts remain. */
void ps_profile_line_of(uintptr_t site, struct ps_profile_line *out);

/* A stack, never removed. x_ fields: table lock. */
struct ps_profile_stack {
    struct ps_profile_stack *next; /* older one */
    struct ps_profile_stack *chain;
    struct ps_profile_sums x_sums;
    struct ps_profile_mark x_period; /* now */
    struct ps_profile_mark x_peak;   /* before the first change since the peak */
    uint32_t hash;
    uint32_t count;
    uint32_t x_place;  /* of its copy in the flight record; 0: it has none. Table lock */
    uintptr_t sites[]; /* innermost first */
};

/* The stacks, newest first: starts at NULL, returns NULL after the last. The last has no sites: its
 * sums are those of stacks that did not fit. */
const struct ps_profile_stack *ps_profile_next(const struct ps_profile_stack *stack);

/* The sums of a stack at this moment. */
void ps_profile_read_sums(const struct ps_profile_stack *stack, struct ps_profile_sums *out);

/* Sets x_place, and has the sums copied there. 0: they are not copied any longer. */
void ps_profile_set_place(const struct ps_profile_stack *stack, uint32_t place);

/* Called when the sums of a stack that has a place have changed, with the table's lock: must not
 * allocate or lock. The engine has a weak one that does nothing. */
PS_HOOK void ps_profile_changed(const struct ps_profile_stack *stack);

struct ps_profile_counts {
    uint64_t sample_count;     /* since the start */
    uint64_t lost_stack_count; /* of them: of stacks that did not fit */
    uint64_t lost_block_count; /* of them: counted as freed, since the table was full */
    uint64_t live_bytes;       /* sum over all stacks */
    uint64_t medium_count;     /* live samples in medium regions, for the census */
    uint64_t medium_bytes;     /* of their pages */
    uint64_t period_number;    /* periods that have begun since the start */
    uint64_t period_sample;    /* the number of the last sample before it */
    uint64_t period_bytes;     /* live_bytes of samples since then */
    uint64_t peak_bytes;       /* the most of that */
    uint64_t peak_number;      /* peaks since the start */
};
/* Written under the table's lock. Read from outside the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_profile_counts ps_profile_x_counts;
void ps_profile_count(struct ps_profile_counts *out);

/* Begins a period, whose peak counts later samples alone. Any thread; O(1). */
void ps_profile_begin_period(void);

/* Stores the sites of the calling thread, innermost first, at most `limit`; returns how many.
 * Called at each sample, without locks: must not allocate, and preserves errno. The engine has a
 * weak one, of ps_guard_trace. */
PS_HOOK size_t ps_profile_trace(uintptr_t *sites, size_t limit);

/* Called after each sample for a profile or a flight record, without locks, in a call of malloc:
 * must not allocate, and preserves errno. The engine has a weak one that does nothing. */
PS_HOOK void ps_profile_sampled(uint64_t live_bytes);

/* ---- entry points and hooks, see mode.h ---- */

bool ps_profile_start(const struct ps_config *config);
void *ps_profile_resize(void *block, size_t bytes);
size_t ps_profile_resize_in_place(void *block, size_t bytes);
int64_t ps_profile_count_bytes(struct ps_sampler *sampler, int64_t bytes, bool *is_due);
void *ps_profile_sample_class(struct ps_sampler *sampler, uint32_t class_index, size_t requested,
                              const struct ps_slab *slab);
void ps_profile_sample_large(const struct ps_sampler *sampler, void *block, size_t requested);
void ps_profile_end_sample(const void *block);
void ps_profile_stray_free(struct ps_slot *slot, void *block);
size_t ps_profile_stray_usable(const struct ps_slot *slot, const void *block,
                               enum ps_misuse_call call);
void ps_profile_fork_child(void);

/* ---- pages, which pools take: they count when a pool grows, not each of its blocks ---- */

/* Counts a run, and enters a sample if one is due. */
void ps_profile_pages_taken(void *pages, size_t bytes);

/* True if a run of so many bytes may be the next sample. */
bool ps_profile_pages_may_be_due(size_t bytes);

/* ---- pools (pool.c): the innermost site of a pool's sample is a line record with its family and
 * name, as `region "sessions"`, of the file PS_PROFILE_POOL_FILE ---- */

#define PS_PROFILE_POOL_FILE "[pool]"

/* The calling thread takes memory for a pool until ps_profile_pool_ends. bytes: of the pages that
 * it takes; SIZE_MAX: other memory. name: NULL or the family's: it has none. False, and nothing has
 * begun, when no sample is due. Cost: of those that are, a line record. */
bool ps_profile_pool_begins(const char *family, const char *name, size_t bytes);
void ps_profile_pool_ends(void);

/* The site of the pool that the calling thread takes memory for; 0: there is none. */
uintptr_t ps_profile_pool_site(void);

/* The same for a heap (heap/partition_path.h): `heap "session"`; without a name `heap`. */
uintptr_t ps_profile_heap_site(const char *name);

/* The texts of a pool's site, without terminators; name_bytes: 0: it has no name. False of other
 * sites. */
struct ps_profile_pool {
    const char *family;
    const char *name;
    size_t family_bytes;
    size_t name_bytes;
};
bool ps_profile_pool_of(uintptr_t site, struct ps_profile_pool *out);

#endif
