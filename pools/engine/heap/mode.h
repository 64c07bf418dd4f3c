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
 * Before the start all pointers are NULL. A thread with a heap finds its mode here, because the
 * heap was created after the start; all others go through detached.c, which starts the engine.
 * Callers: heap/. No locks: the rows are constant after the start.
 */
#ifndef PS_HEAP_MODE_H
#define PS_HEAP_MODE_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"
#include "pools/engine/small/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_bin;
struct ps_heap;
struct ps_run;
struct ps_sampler;
struct ps_slab;
struct ps_slot;
struct ps_span;

enum ps_mode_index {
    PS_MODE_PLAIN = 0, /* with a sampled heap profile on demand: profile/demand.h */
    PS_MODE_SAMPLED,   /* plain, with guarded samples */
    PS_MODE_ZEROED,    /* level 1 of POOLSHIM_HARDEN: free takes the slow path */
    PS_MODE_HARDENED,  /* levels 2 and 3: malloc and free take the slow path */
    PS_MODE_RECORDED,
    PS_MODE_TRACED, /* recorded, with each call of windows of time */
    PS_MODE_COUNT
};

/*
 * Slow paths of the entry points. heap: the calling thread's, or the shared one of detached.c; NULL
 * only for requests above PS_CLASS_BYTES_LIMIT. Results and errors are those of the functions of
 * fast_path.h and slow_path.h.
 *
 * alloc of a mode without a fast alloc, and free_block of one without a fast free, are tail calls:
 * they end with ps_thread_leave, unless keeps_heaps is set.
 */
struct ps_mode_entry {
    void *(*alloc)(struct ps_heap *heap, size_t bytes);
    void *(*zalloc)(struct ps_heap *heap, size_t bytes);
    void *(*alloc_aligned)(struct ps_heap *heap, size_t bytes, size_t align);

    /* block: may be NULL. span: its slot, of any kind; owner_key: as read from the slot. */
    void (*free_block)(struct ps_span *span, void *block, uintptr_t owner_key);

    /* block: not NULL. */
    void *(*resize)(void *block, size_t bytes);
    size_t (*usable)(const void *block);
};

/*
 * Entry points where small blocks are in slabs (has_fronts), NULL where the mode's is the plain
 * one. Those of the table above take their place in other modes.
 *
 * alloc sees the requests that do not take the fast path: all of them without has_fast_alloc.
 * free_block sees the blocks that do not, and all of them without has_fast_free; any address but
 * NULL. resize, usable: any address but NULL. Any thread, also one whose destructors have run.
 */
struct ps_mode_front {
    void *(*alloc)(size_t bytes);
    void *(*zalloc)(size_t bytes);
    void *(*alloc_aligned)(size_t bytes, size_t align);
    void (*free_block)(void *block);
    void *(*resize)(void *block, size_t bytes);
    size_t (*usable)(const void *block);
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

    /* True if small blocks are in slabs, and threads have fronts: heap/front_path.h. Else they are
     * in spans of heaps. */
    bool has_fronts;

    /* True if heaps are not taken from threads that make no calls: see thread.h. */
    bool keeps_heaps;

    /* True if the refill hook must return a block of the class: see exhausted.h. */
    bool refills_by_class;

    /* Starts the mode. Called once, under the initialisation lock, after the layers below. Returns
     * false when the mode is unavailable; the process then gets the plain mode. */
    bool (*start)(const struct ps_config *config);

    /* Creates the `mode_state` of a new heap, which may be NULL. Returns false when memory is
     * exhausted. */
    bool (*make_state)(void **state);

    /* The calling thread has got a heap; or is about to give it up. */
    void (*thread_start)(struct ps_heap *heap);
    void (*thread_end)(struct ps_heap *heap);

    /* Serves a request whose bin is empty: see ps_heap_refill. If memory is exhausted, the block
     * may be of a longer class, or a medium block, unless refills_by_class. */
    void *(*refill)(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);

    /* Takes the first block of a bin that was just refilled. */
    void *(*take)(struct ps_heap *heap, uint32_t class_index);

    /* Counts requests of so many bytes of classes, where small blocks are in slabs. Returns how
     * many more may pass before the next call, 1 or more, or PS_COUNT_EACH; *is_due: a sample is
     * due. NULL: there are no samples. */
    int64_t (*count_bytes)(struct ps_sampler *sampler, int64_t bytes, bool *is_due);

    /* A sampled block instead of one of the slab; NULL: none is taken. */
    void *(*sample)(struct ps_sampler *sampler, uint32_t class_index, size_t requested,
                    const struct ps_slab *slab);

    /* Makes a block above the classes, just allocated, a sampled one, if a sample may be taken.
     * NULL: none are. */
    void (*sample_large)(const struct ps_sampler *sampler, void *block, size_t requested);

    /* Ends the sample of a run or a mapping that is being freed, if it is one. NULL: none are. */
    void (*end_sample)(const void *block);

    /* Counts the pops of the class's list that an event of free has found since the last. NULL: not
     * counted. */
    void (*count_pops)(struct ps_heap *heap, uint32_t class_index, int64_t popped);

    /* True if a free streak may continue from the newest block by this step. NULL: always. */
    bool (*may_open_streak)(const struct ps_span *span, const char *newest, ptrdiff_t step);

    /* Returns the blocks of a free streak that has ended to their span, which may have another
     * owner. */
    void (*return_streak)(struct ps_heap *heap, struct ps_span *span, char *lowest, size_t blocks);

    /* Returns the blocks of a class that the mode caches to their spans. */
    void (*flush_class)(struct ps_heap *heap, uint32_t class_index);

    /* Takes a freed large block's run, BUSY, for the page cache, now or later. */
    void (*release_run)(struct ps_run *run);

    /* Returns quarantined memory to the page cache, on demand or before a request fails. */
    void (*reclaim)(void);

    /* Handle an address outside of spans that is not a large block: a mode's own block, or a
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
    struct ps_mode_front front;
    struct ps_mode_hook hook;
};

extern PS_HIDDEN struct ps_mode ps_mode;

/* modes.c: the only symbols of higher layers that the core uses. */
PS_HOOK extern PS_HIDDEN const struct ps_mode_entry ps_mode_entries[PS_MODE_COUNT];
PS_HOOK extern PS_HIDDEN const struct ps_mode_front ps_mode_fronts[PS_MODE_COUNT];
PS_HOOK extern PS_HIDDEN const struct ps_mode_hook ps_mode_hooks[PS_MODE_COUNT];

/* Chooses and starts the mode. Called once, at start, under the initialisation lock. */
void ps_mode_start(const struct ps_config *config);

/* Hooks that do nothing. */
bool ps_mode_makes_no_state(void **state);
void ps_mode_ignores_heap(struct ps_heap *heap);
void ps_mode_ignores_class(struct ps_heap *heap, uint32_t class_index);
void ps_mode_ignores_tick(void);
void ps_mode_ignores_fork(void);

#endif
