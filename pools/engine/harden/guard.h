/* SPDX-License-Identifier: MIT */
/*
 * Guarded samples: about one in N allocations gets pages of its own between inaccessible ones, and
 * they become inaccessible when it is freed. An access beyond either end, or after the free, then
 * faults at the responsible instruction, and the report names the call sites of allocation and
 * free. (The method is Electric Fence's; sampling, which makes it usable in production, is
 * GWP-ASan's.)
 *
 * Sampling: each allocation of up to PS_GUARD_BYTES_LIMIT bytes is a sample with probability 1/N,
 * whatever its size, and whatever the thread has done before. A thread has a sampler
 * (heap/front_thread.h), which counts in one of two ways.
 *
 *   bytes        in modes with a fast path of malloc, which counts requested bytes down and leaves
 *                it at the points of a Poisson process, 8 N bytes apart on average. A request of
 *                b bytes has a point with probability p = 1 - exp(-b / 8N), and one that has any is
 *                a sample with probability 1 / pN. Requests of fewer than 8 bytes do not have
 *                enough points: one of them is a sample with probability b / 8N
 *   allocations  in modes that see each request, and for N up to PS_GUARD_EXACT, where each leaves
 *                the fast path; also one of fewer than 8 bytes, or of none
 *
 * Memory: a pool of slots, one reserved mapping that is entered in the page map, so that free,
 * realloc and malloc_usable_size recognise a guarded block by its slot (PS_RUN_GUARD). Slots are
 * reused oldest first.
 *
 * Callers: the mode's hooks and entry points (modes.c), other modes, stray.c. Any thread; lock
 * PS_RANK_GUARD, for the queue of free slots only.
 */
#ifndef PS_HARDEN_GUARD_H
#define PS_HARDEN_GUARD_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/os/fatal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_GUARD_FRAMES 16

/* Larger requests are not sampled, nor counted; at least a page. */
#define PS_GUARD_BYTES_LIMIT ((size_t)16 << 10)

/* Mean number of allocations per sample; 0: sampling is off. Written once, at start. */
extern PS_HIDDEN uint32_t ps_guard_period;

/* Called once, under the initialisation lock, after the page layer. Switches sampling on unless the
 * configuration forbids it or memory is exhausted. */
void ps_guard_start(const struct ps_config *config);

/* Installs the fault handler if sampling is on. Called once; without it faults are not
 * explained. */
void ps_guard_watch(void);

static inline bool ps_guard_is_exact(void) { return ps_guard_period - 1 < PS_GUARD_EXACT; }

/*
 * Allocates a guarded block of `bytes` usable bytes, placed at random against the inaccessible page
 * before or after it. Its alignment is 16 (8 up to 8 bytes), or that of `bytes` if higher. Returns
 * NULL, with errno unchanged, if the size is too large, no slot is free, or the caller is the
 * unwinder; the caller then allocates as usual.
 */
void *ps_guard_make(size_t bytes);

/* Frees a block in a slot of kind PS_RUN_GUARD; aborts with a report if it is not live or its
 * surroundings were overwritten. Preserves errno. */
void ps_guard_free(void *block);

/* Usable bytes of a live guarded block; otherwise aborts with a report that starts with `call`, for
 * example "realloc". */
size_t ps_guard_usable(const void *block, const char *call);

/* ---- guard_sample.c ---- */

/* Counts one allocation of the calling thread, of up to PS_GUARD_BYTES_LIMIT bytes, in a mode that
 * sees all. Returns a guarded block, as ps_guard_make does; NULL: no sample is due. */
void *ps_guard_try_due(size_t bytes);
PS_INLINE void *ps_guard_try(size_t bytes) {
    return PS_LIKELY(--ps_front_thread.sampler.left_bytes > 0) ? NULL : ps_guard_try_due(bytes);
}

/* Counts the bytes of a request above the classes, which may be above PS_GUARD_BYTES_LIMIT, in a
 * mode with a fast path of malloc. Results as above. */
void *ps_guard_try_large(size_t bytes);

/* Hooks of a mode with a fast path of malloc, and entry points: see mode.h. */
int64_t ps_guard_count_bytes(struct ps_sampler *sampler, int64_t bytes, bool *is_due);
void *ps_guard_sample_class(struct ps_sampler *sampler, uint32_t class_index, size_t requested,
                            const struct ps_slab *slab);
void *ps_guard_alloc(size_t bytes);
void *ps_guard_zalloc(size_t bytes);

/* ---- counts ---- */

/* Totals over all slots, for the census. */
struct ps_guard_counts {
    uint64_t live_count;
    uint64_t live_bytes; /* usable bytes of live blocks */
    uint64_t held_bytes; /* memory of slots: pages that have or had a block */
};
/* Any thread adds. Read from outside the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_guard_counts ps_guard_x_counts;

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_guard_fork_child(void);

/*
 * Hooks. The engine defines weak ones that do nothing; the linking program may replace them. Both
 * are called without locks, allocate nothing and preserve errno.
 *
 * trace: stores the call sites of the calling thread, innermost first, at most `limit`.
 * instruction: 0, or the first site (in a signal handler, the interrupted instruction). Returns the
 * number of sites. name: describes a call site for addr2line and readers, NUL-terminated.
 */
PS_HOOK size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction);
PS_HOOK void ps_guard_name(uintptr_t site, char *text, size_t capacity);

/* ---- internals ---- */

/*
 * Internals of the guard pool, for guard.c, which maintains it, and guard_report.c, which also
 * reads it in the signal handler.
 *
 * A slot has four parts, each as long as the largest block: inaccessible, data, inaccessible twice.
 * The first pages of the data part are accessible while there is a block, as many as the block
 * needs. The block lies at their start or at their end; the rest of them is filled with
 * PS_GUARD_FILL, which is compared when the block is freed.
 */

#define PS_GUARD_FILL 0x9d

enum ps_guard_state {
    PS_GUARD_UNUSED = 0, /* never had a block */
    PS_GUARD_LIVE,
    PS_GUARD_FREED, /* from the start of the free until reuse */
};

/* The thread and call sites of an event. */
struct ps_guard_trace {
    uint32_t thread; /* the kernel's id */
    uint32_t count;
    uintptr_t sites[PS_GUARD_FRAMES];
};

/* x_state apart, written by the thread that took the slot from the queue or won the state. */
struct ps_guard_record {
    char *block;
    uint32_t bytes;
    uint32_t x_state;    /* enum ps_guard_state */
    uint32_t held_bytes; /* of the slot's pages, touched by its blocks so far */
    struct ps_guard_trace allocated;
    struct ps_guard_trace freed;
};

struct ps_guard_pool {
    char *base; /* NULL: sampling is off */
    size_t slots;
    size_t part_bytes; /* a quarter of a slot */
    size_t page_bytes;
    struct ps_guard_record *records;
};

/* Constant after ps_guard_start. */
extern PS_HIDDEN struct ps_guard_pool ps_guard_pool;

static inline size_t ps_guard_slot_bytes(void) { return 4 * ps_guard_pool.part_bytes; }

static inline struct ps_guard_record *ps_guard_record_of(const void *address) {
    size_t offset = (size_t)((const char *)address - ps_guard_pool.base);
    return &ps_guard_pool.records[offset / ps_guard_slot_bytes()];
}

/* The pages that a live block touches, which are accessible; one for a block of no bytes. */
struct ps_guard_range {
    char *first;
    char *end;
};
struct ps_guard_range ps_guard_pages(const struct ps_guard_record *record);

/* ---- guard_report.c ---- */

/* Reports an error of `call` at `address`, the allocation and free of the record's block, and the
 * present call; then aborts. For example "realloc", " of free block". */
PS_NORETURN void ps_guard_die(const char *call, const char *what, const void *address,
                              const struct ps_guard_record *record);

/* The ps_fault_claim of the pool. */
bool ps_guard_claim(const struct ps_fault *fault);

#endif
