/* SPDX-License-Identifier: MIT */
/*
 * The modes of the engine. A process has one, chosen at start from its configuration; the core has
 * no branch on it. Differences between modes are two rows of functions: entry points for calls that
 * do not take the fast path, and hooks for events of the core.
 *
 * The tables of all rows are constant (modes.c). The rows of the chosen mode are copied to
 * `ps_mode`, which has a page of its own that is read-only after the start: a program that is made
 * to write to arbitrary addresses cannot redirect the allocator there. The copy also makes a call
 * through it one instruction, without a pointer to follow.
 *
 * The fast path has no hook. In a mode that must see every malloc, or every free, threads do not
 * take it: see has_fast_alloc and has_fast_free.
 *
 * Before the start all pointers are NULL. A thread with a fast_limit finds its mode here, because
 * the thread has begun after the start; all others start the engine first (ps_engine_may_serve).
 * Callers: heap/. No locks: the rows are constant after the start.
 */
#ifndef PS_HEAP_MODE_H
#define PS_HEAP_MODE_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"
#include "pools/engine/small/misuse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_partition;
struct ps_partition_request;
struct ps_run;
struct ps_sampler;
struct ps_slab;
struct ps_slot;

enum ps_mode_index {
    PS_MODE_PLAIN = 0, /* with a sampled heap profile on demand: profile/demand.h */
    PS_MODE_SAMPLED,   /* plain, with guarded samples */
    PS_MODE_ZEROED,    /* level 1 of POOLSHIM_HARDEN: free takes the slow path */
    PS_MODE_HARDENED,  /* level 2: neither malloc nor free takes the fast path */
    PS_MODE_SITED,     /* level 3: likewise, with parts of the heap by call site */
    PS_MODE_TAGGED,    /* POOLSHIM_HARDEN=mte: memory tags; likewise */
    PS_MODE_RECORDED,
    PS_MODE_TRACED, /* recorded, with each call of some sections of time */
    PS_MODE_COUNT
};

/*
 * Entry points. alloc sees the requests that do not take the fast path: all of them without
 * has_fast_alloc. free_block sees the blocks that do not, and all of them without has_fast_free;
 * any address but NULL. The others: any address but NULL. Any thread, also one whose
 * destructors have run. Results and errors are those of block.h.
 */
struct ps_mode_entry {
    void *(*alloc)(size_t bytes);
    void *(*zalloc)(size_t bytes);
    void *(*alloc_aligned)(size_t bytes, size_t align);
    /* In a partition, any size: partition_path.h. The caller charges the block. */
    void *(*alloc_in)(struct ps_partition *partition, const struct ps_partition_request *request);
    void (*free_block)(void *block);
    void *(*resize)(void *block, size_t bytes);
    size_t (*usable)(const void *block);
    size_t (*resize_in_place)(void *block, size_t bytes); /* as ps_block_resize_in_place */
};

/* Result of stray_usable for a foreign pointer. */
#define PS_STRAY_FOREIGN SIZE_MAX

/* Result of count_bytes: each request is to be counted, also one of no bytes. */
#define PS_COUNT_EACH INT64_C(-1)

/* No pointer may be NULL unless stated. */
struct ps_mode_hook {
    /* True if ps_heap_alloc, or ps_heap_free, may serve threads without the mode. */
    bool has_fast_alloc;
    bool has_fast_free;

    /* Starts the mode. Called once, under the initialisation lock, after the layers below. Returns
     * false when the mode is unavailable; the process then gets the plain mode. */
    bool (*start)(const struct ps_config *config);

    /* Counts requests of so many bytes. Returns how many more may pass before the next call, 1 or
     * more, or PS_COUNT_EACH; *is_due: a sample is due. NULL: there are no samples. */
    int64_t (*count_bytes)(struct ps_sampler *sampler, int64_t bytes, bool *is_due);

    /* A sampled block instead of one of the slab; NULL: none is taken. */
    void *(*sample)(struct ps_sampler *sampler, uint32_t class_index, size_t requested,
                    const struct ps_slab *slab);

    /* Makes a block above the classes, just allocated, a sampled one, if a sample may be taken.
     * NULL: none are. */
    void (*sample_large)(const struct ps_sampler *sampler, void *block, size_t requested);

    /* Ends the sample of a run or a mapping that is being freed, if it is one. NULL: none are. */
    void (*end_sample)(const void *block);

    /* Takes a freed large block's run, BUSY, for the page cache, now or later. */
    void (*release_run)(struct ps_run *run);

    /* Returns quarantined memory to the page cache, on demand or before a request fails. */
    void (*reclaim)(void);

    /* Returns quarantined memory before a partition ends, and lets no other thread return some
     * afterwards that had left the quarantine before. NULL: there is none. */
    void (*end_partition)(void);

    /* In the child of a fork whose process had several threads: returns free blocks that the mode
     * has to the bitmaps of their slabs, as ps_front_fork_child does. NULL: it has none. */
    void (*fork_blocks)(void);

    /* Handle an address outside of slabs that is not a large block: a mode's own block, or a
     * foreign pointer. */
    void (*stray_free)(struct ps_slot *slot, void *block);
    size_t (*stray_usable)(const struct ps_slot *slot, const void *block, enum ps_misuse_call call);

    /* Periodic work. Called when a slow call, or the background thread, has read the clock. */
    void (*tick)(void);

    /* Repairs the mode in the child of a fork, on its only thread. */
    void (*fork_child)(void);
};

/* The rows of the chosen mode, alone in their page. Written once. */
struct PS_ALIGNED(PS_PAGE_BYTES_LIMIT) ps_mode {
    struct ps_mode_entry entry;
    struct ps_mode_hook hook;
};

extern PS_HIDDEN struct ps_mode ps_mode;

/* modes.c: the only symbols of higher layers that the core uses. */
PS_HOOK extern PS_HIDDEN const struct ps_mode_entry ps_mode_entries[PS_MODE_COUNT];
PS_HOOK extern PS_HIDDEN const struct ps_mode_hook ps_mode_hooks[PS_MODE_COUNT];

/* Chooses and starts the mode. Called once, at start, under the initialisation lock. */
void ps_mode_start(const struct ps_config *config);

/* A hook that does nothing. */
void ps_mode_ignores_tick(void);

#endif
