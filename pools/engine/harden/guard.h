/* SPDX-License-Identifier: MIT */
/*
 * Guarded samples: about one in N allocations gets pages of its own between inaccessible ones, and
 * they become inaccessible when it is freed. An access beyond either end, or after the free, then
 * stops at the very instruction, and the report says where the block was allocated and freed. (The
 * idea is Electric Fence's, the sampling that makes it fit for production GWP-ASan's.)
 *
 * When: only slow paths look whether a sample is due, so the hit paths know nothing of it. Each
 * heap has a sampler that counts the allocations of its bins: those from windows when they are
 * granted, those from lists when the span's account is settled. While sampling is on, windows are
 * short; when a sample is due at an event of free, the bin is emptied, and the next malloc of the
 * class comes to ps_heap_refill, which asks here first. From PS_GUARD_EXACT down no bin keeps
 * anything, so that each single allocation is counted.
 *
 * Where: a pool of slots, one reserved mapping that is entered in the page map, so that free,
 * realloc and malloc_usable_size recognise a guarded block by its slot (PS_RUN_GUARD). Slots are
 * reused oldest first.
 *
 * Callers: through the mode's hooks (modes.c), guard_refill.c, stray.c. Any thread; lock
 * PS_RANK_GUARD, for the queue of free slots only.
 */
#ifndef PS_HARDEN_GUARD_H
#define PS_HARDEN_GUARD_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/os/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_GUARD_FRAMES 16

/* Larger requests are not sampled, nor counted; at least a page. */
#define PS_GUARD_BYTES_LIMIT ((size_t)16 << 10)

/* One in so many allocations is guarded; 0: sampling is off. Set once, at start. */
extern PS_HIDDEN uint32_t ps_guard_period;

/* Once, under the initialisation lock, after the page layer. Sampling stays off when the
 * configuration says so or when memory is out. */
void ps_guard_start(const struct ps_config *config);

/* Installs the fault handler, if sampling is on. Once; without it a fault is just a fault. */
void ps_guard_watch(void);

static inline bool ps_guard_is_exact(void) { return ps_guard_period - 1 < PS_GUARD_EXACT; }

/* Counts allocations; a negative number takes some back. */
void ps_guard_count(struct ps_guard_sampler *sampler, int64_t allocations);

/* Sampling is on. */
static inline bool ps_guard_is_due(const struct ps_guard_sampler *sampler) {
    return sampler->left <= 0;
}

/*
 * A guarded block, when a sample is due: of `bytes` usable bytes, at random against the pages
 * before or behind. Its alignment is 16 (8 up to 8 bytes), and that of `bytes` if that is more.
 * NULL, errno as it was: not due, too large, or no slot is free; the caller takes the usual way.
 */
void *ps_guard_alloc(struct ps_guard_sampler *sampler, size_t bytes);

/* Frees what lies in a slot of kind PS_RUN_GUARD; dies with a report if that is no live block or
 * its surroundings were written to. errno is kept. */
void ps_guard_free(void *block);

/* Usable bytes of a live guarded block; else dies with a report that starts with `call`, "realloc".
 */
size_t ps_guard_usable(const void *block, const char *call);

/* ---- guard_refill.c: hooks and an entry point, see mode.h ---- */

void *ps_guard_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);
void *ps_guard_zalloc(struct ps_heap *heap, size_t bytes);
void ps_guard_count_pops(struct ps_heap *heap, uint32_t class_index, int64_t popped);

/* Totals over all slots, for the census. */
struct ps_guard_counts {
    uint64_t live_count;
    uint64_t live_bytes; /* usable bytes of live blocks */
    uint64_t held_bytes; /* memory of slots: pages that hold a block or have held one */
};
void ps_guard_read(struct ps_guard_counts *out);

/* In the child of a fork, by its only thread. */
void ps_guard_fork_child(void);

/*
 * Hooks; the engine has weak ones that do nothing, whoever links it may provide his own. Both are
 * called without locks, allocate nothing and keep errno.
 *
 * trace: call sites of the calling thread, innermost first, at most `limit`. instruction: 0, or
 * where to begin (the thread is in a signal handler, which interrupted that). Returns how many.
 * name: what addr2line and readers want to know of a call site, NUL-terminated.
 */
PS_HOOK size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction);
PS_HOOK void ps_guard_name(uintptr_t site, char *text, size_t capacity);

/* ---- the inside ---- */

/*
 * The inside of the guard pool, for guard.c, which keeps it, and guard_report.c, which reads it,
 * also from the signal handler.
 *
 * A slot is four parts of equal length, the largest block's: inaccessible, data, inaccessible
 * twice. Of the data part the first pages are accessible while there is a block, no more than it
 * needs. The block lies at their begin or at their end; what they have around it is filled with
 * PS_GUARD_FILL and compared when the block is freed.
 */

#define PS_GUARD_FILL 0x9d

enum ps_guard_state {
    PS_GUARD_UNUSED = 0, /* never held a block */
    PS_GUARD_LIVE,
    PS_GUARD_FREED, /* also while it is being freed and until it is reused */
};

/* Whose call, and from where. */
struct ps_guard_trace {
    uint32_t thread; /* the kernel's id */
    uint32_t count;
    uintptr_t sites[PS_GUARD_FRAMES];
};

/* All but x_state is written by whoever took the slot from the queue or won the state. */
struct ps_guard_record {
    char *block;
    uint32_t bytes;
    uint32_t x_state;    /* enum ps_guard_state */
    uint32_t held_bytes; /* of the slot's pages, what its blocks so far have touched */
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

/* The accessible pages of a live block are those it touches; a block of no bytes has one. */
struct ps_guard_range {
    char *first;
    char *end;
};
struct ps_guard_range ps_guard_pages(const struct ps_guard_record *record);

/* ---- guard_report.c ---- */

/* Says what is wrong with `address`, then where the record's block was allocated and freed, and
 * who does this now; then aborts. "realloc", " of free block". */
PS_NORETURN void ps_guard_die(const char *call, const char *what, const void *address,
                              const struct ps_guard_record *record);

/* For ps_fault_watch. */
bool ps_guard_claim(const struct ps_fault *fault);

#endif
