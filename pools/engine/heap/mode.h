/* SPDX-License-Identifier: MIT */
/*
 * The modes of the engine. A process has one, chosen at start from its configuration; nothing in
 * the core asks which. What differs between modes is called through two rows of functions: the
 * entry points for calls that do not take the fast path, and the hooks for events of the core.
 *
 * The tables of all rows are constant (modes.c). The rows of the chosen mode are copied to
 * `ps_mode`, which has a page of its own that is read-only after the start: a program that is made
 * to write to any address cannot redirect the allocator there. The copy also makes a call through
 * it one instruction, without a pointer to follow.
 *
 * The fast path asks nothing here. A mode that must see every malloc, or every free, keeps its
 * threads off it: see has_fast_alloc and has_fast_free.
 *
 * Before the start all is NULL. A thread with a heap finds its mode here, since the heap was made
 * after the start; all others go through detached.c, which sees to the start.
 */
#ifndef PS_HEAP_MODE_H
#define PS_HEAP_MODE_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"
#include "pools/engine/small/misuse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_bin;
struct ps_heap;
struct ps_run;
struct ps_slot;
struct ps_span;

enum ps_mode_index {
    PS_MODE_PLAIN = 0,
    PS_MODE_SAMPLED, /* plain, with guarded samples */
    PS_MODE_ZEROED,  /* level 1 of POOLSHIM_HARDEN: free takes the slow path, malloc the fast one */
    PS_MODE_HARDENED, /* levels 2 and 3: both take the slow path */
    PS_MODE_RECORDED,
    PS_MODE_COUNT
};

/*
 * The slow side of the entry points. heap: the calling thread's, or exited.c's; NULL only for
 * requests above PS_CLASS_BYTES_LIMIT. Results and errors are those of the functions of
 * fast_path.h, alloc.h and resize.h.
 */
struct ps_mode_entry {
    void *(*alloc)(struct ps_heap *heap, size_t bytes);
    void *(*zalloc)(struct ps_heap *heap, size_t bytes);
    void *(*alloc_aligned)(struct ps_heap *heap, size_t bytes, size_t align);

    /* block: not NULL. span: its slot, whatever it is the slot of; owner_key: as read from there.
     */
    void (*free_block)(struct ps_span *span, void *block, uintptr_t owner_key);

    /* block: not NULL. */
    void *(*resize)(void *block, size_t bytes);
    size_t (*usable)(const void *block);
};

/* What ps_mode_hook.stray_usable returns for an address that is none of ours. */
#define PS_STRAY_FOREIGN SIZE_MAX

/* None may be NULL where nothing else is said. */
struct ps_mode_hook {
    /* Whether ps_heap_alloc and ps_heap_free may serve threads by themselves. */
    bool has_fast_alloc;
    bool has_fast_free;

    /* Once, under the initialisation lock, after the layers below. False: it cannot be had, and the
     * process has the plain mode. */
    bool (*start)(const struct ps_config *config);

    /* A heap is about to be made: its `mode_state`, which may be NULL. False: memory is out. */
    bool (*make_state)(void **state);

    /* The calling thread has got a heap; it is about to give it up. */
    void (*thread_start)(struct ps_heap *heap);
    void (*thread_end)(struct ps_heap *heap);

    /* A bin is empty: see ps_heap_refill. */
    void *(*refill)(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);

    /* An event of free has found so many pops of the class's list since the last. NULL where
     * nothing counts them. */
    void (*count_pops)(struct ps_heap *heap, uint32_t class_index, int64_t popped);

    /* Whether a free streak may go on from the newest block by such steps. NULL: always. */
    bool (*may_open_streak)(const struct ps_span *span, const char *newest, ptrdiff_t step);

    /* The blocks of a free streak that has ended go to their span, whose owner may be another. */
    void (*return_streak)(struct ps_heap *heap, struct ps_span *span, char *lowest, size_t blocks);

    /* Blocks of a class that the mode keeps back go to their spans. */
    void (*flush_class)(struct ps_heap *heap, uint32_t class_index);

    /* A freed large block's run, BUSY, for the page cache, now or later. */
    void (*release_run)(struct ps_run *run);

    /* Memory is short, or wanted back: what the mode keeps for later goes to the page cache.
     * Returns whether there was anything. */
    bool (*reclaim)(void);

    /* A block in no span that is no large block either: a mode's own, or none of ours. */
    void (*stray_free)(struct ps_slot *slot, void *block);
    size_t (*stray_usable)(const struct ps_slot *slot, const void *block, enum ps_misuse_call call);

    /* In the child of a fork, by its only thread. */
    void (*fork_child)(void);
};

/* The rows of the chosen mode, alone in their page. Written once. */
struct PS_ALIGNED(PS_PAGE_BYTES_LIMIT) ps_mode {
    struct ps_mode_entry entry;
    struct ps_mode_hook hook;
};

extern PS_HIDDEN struct ps_mode ps_mode;

/* modes.c: what the core may call of the layers above it. */
PS_HOOK extern PS_HIDDEN const struct ps_mode_entry ps_mode_entries[PS_MODE_COUNT];
PS_HOOK extern PS_HIDDEN const struct ps_mode_hook ps_mode_hooks[PS_MODE_COUNT];

/* Once, at start, under the initialisation lock: chooses and starts the mode. */
void ps_mode_start(const struct ps_config *config);

/* What rows without anything to do there have. */
bool ps_mode_makes_no_state(void **state);
void ps_mode_ignores_heap(struct ps_heap *heap);
void ps_mode_ignores_class(struct ps_heap *heap, uint32_t class_index);
bool ps_mode_reclaims_nothing(void);
void ps_mode_ignores_fork(void);

#endif
