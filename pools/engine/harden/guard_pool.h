/* SPDX-License-Identifier: MIT */
/*
 * The inside of the guard pool, for guard.c, which keeps it, and guard_report.c, which reads it,
 * also from the signal handler.
 *
 * A slot is four parts of equal length, the largest block's: inaccessible, data, inaccessible
 * twice. Of the data part the first pages are accessible while there is a block, no more than it
 * needs. The block lies at their begin or at their end; what they have around it is filled with
 * PS_GUARD_FILL and compared when the block is freed.
 */
#ifndef PS_HARDEN_GUARD_POOL_H
#define PS_HARDEN_GUARD_POOL_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/os/fault.h"

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
