/* SPDX-License-Identifier: MIT */
/*
 * Shared declarations of this folder. A granule in use by pages: the tenant's part of its slot, and
 * the arithmetic on the bitmap of its free pages. Blocks of 2^order pages lie at multiples of their
 * length, as in a buddy allocator (Knowlton 1965), but any bits may be set, so that no merging is
 * needed. Then the functions of each file, and the start of the pages, which differs by library.
 */
#ifndef PS_PAGES_PAGES_H
#define PS_PAGES_PAGES_H

#include "pools/engine/base/bits.h"
#include "pools/pages/depot.h"

#define PS_PAGE_SHIFT 12
#define PS_ORDERS 5 /* 1, 2, 4, 8 and 16 pages */
#define PS_ORDER_NONE PS_ORDERS
#define PS_ALL_PAGES 0xffffu

/* Invariants, under the depot lock: x_dirty is a subset of x_free; the granule is on the list of
 * the longest block that is free in it, on none when x_free is 0. */
struct ps_pages_granule {
    PS_ALIGNED(PS_CACHE_LINE) uintptr_t x_owner; /* PS_KEY_NONE, that is 0: no heap's */
    uint16_t x_free;   /* free pages, a bit each; depot lock; the holder of all pages reads 0 */
    uint16_t x_dirty;  /* free pages that may be non-zero; depot lock */
    uint8_t order;     /* of the list it is on, or PS_ORDER_NONE; depot lock */
    uint8_t seen_idle; /* first scan that found it unchanged; 0: none; depot lock */
    bool is_mapping;   /* lies in a mapping of its own, not in an arena; constant */
    unsigned char unused[PS_TENANT_BYTES - 15];
    struct ps_run run; /* next, prev: the list; granules: 1 */
};

_Static_assert(offsetof(struct ps_pages_granule, run) == offsetof(struct ps_slot, run),
               "a granule by pages is a slot");
_Static_assert(offsetof(struct ps_pages_granule, x_free) / 8 ==
                   offsetof(struct ps_pages_granule, seen_idle) / 8,
               "what the depot lock protects is one word for its undo log");

static inline struct ps_pages_granule *ps_pages_granule_at(const char *address) {
    return (struct ps_pages_granule *)ps_page_map_slot(address);
}

static inline size_t ps_page_index(const char *page) {
    return ((uintptr_t)page >> PS_PAGE_SHIFT) & (PS_GRANULE_PAGES - 1);
}

/* The bits of `pages` pages from `index` on. */
static inline uint32_t ps_page_bits(size_t index, size_t pages) {
    return ((1u << pages) - 1) << index;
}

/* First pages of the free blocks of 2^order pages. */
static inline uint32_t ps_free_blocks(uint32_t free, unsigned order) {
    static const uint32_t places[PS_ORDERS] = {0xffff, 0x5555, 0x1111, 0x0101, 0x0001};
    for (unsigned step = 0; step < order; step++) {
        free &= free >> (1u << step);
    }
    return free & places[order];
}

/* Order of the longest free block; PS_ORDER_NONE when nothing is free. */
static inline unsigned ps_free_order(uint32_t free) {
    unsigned order = PS_ORDERS;
    while (order > 0 && ps_free_blocks(free, order - 1) == 0) {
        order--;
    }
    return order == 0 ? PS_ORDER_NONE : order - 1;
}

/* First page of a free block of 2^order pages, preferably one whose neighbour is not free.
 * Precondition: there is one. */
static inline size_t ps_free_place(uint32_t free, unsigned order) {
    for (; order < PS_ORDERS - 1; order++) {
        uint32_t longer = ps_free_blocks(free, order + 1);
        uint32_t lone = ps_free_blocks(free, order) & ~(longer | longer << (1u << order));
        if (lone != 0) {
            return (size_t)__builtin_ctz(lone);
        }
    }
    return 0;
}

/* Smallest order whose blocks have at least `pages` pages. pages: 1..16. */
static inline unsigned ps_order_of(size_t pages) { return pages == 1 ? 0 : ps_log2(pages - 1) + 1; }

/* Granules with all pages free, linked by run.next. */
struct ps_released {
    struct ps_run *dirty;
    struct ps_run *zero;
};

/* ---- of depot.c, for the depot's other files ---- */

void ps_depot_lock(void);
void ps_depot_unlock(void);

/* Notes words for the child of a fork, before they are changed; or marks the present state as
 * consistent. With the lock. */
void ps_depot_note(const void *at, size_t bytes);
void ps_depot_commit(void);

/* Adds to the number of allocated pages; subtracts when it wraps. */
void ps_depot_count_out(size_t pages);

/* Takes the pages of `bits` out of the free ones. Returns false when not all of them are free. With
 * the lock. */
bool ps_granule_claim_locked(struct ps_pages_granule *granule, uint32_t bits);

/* Adds pages to the free ones. dirty: the pages that may be non-zero. A granule that is wholly free
 * is added to `released`. With the lock. */
void ps_granule_return_locked(struct ps_pages_granule *granule, uint32_t bits, uint32_t dirty,
                              struct ps_released *released);

/* Calls visit for granules with free pages until it returns false. With the lock. */
void ps_granules_walk_locked(bool (*visit)(struct ps_pages_granule *granule, void *context),
                             void *context);

/* ---- of run.c: whole granules; without locks ---- */

/* Takes a run of granules from the page cache or the system, each granule PS_RUN_PAGES with all
 * pages allocated. NULL when memory is exhausted. */
char *ps_granules_take(size_t granules, size_t align_granules, bool *is_zero);

/* Takes free granules after a granule with pages of the caller. Returns false when they are not
 * free. */
bool ps_granules_extend(struct ps_pages_granule *last, size_t granules, bool *is_zero);

/* Returns granules with all pages allocated. Aborts otherwise. */
/* Bytes of free memory that ps_granules_give leaves in the page cache; SIZE_MAX: no bound. */
extern PS_HIDDEN size_t ps_granules_x_limit;
void ps_granules_give(char *base, size_t granules, bool is_zero);

/* Returns released granules to the page cache. */
void ps_granules_release(const struct ps_released *released);

size_t ps_granules_mapped_bytes(void);

/* ---- of extend.c ---- */

/* Takes `pages` free pages from `end` on, to lengthen the run that ends there. Returns false, with
 * nothing changed, when they are not free. */
bool ps_depot_extend(char *end, size_t pages);

/* ---- of decay.c ---- */

/* Purges pages that have been free for the delay; is_forced: all free pages. Returns whether any
 * were purged. Costs system calls. */
bool ps_depot_decay(uint64_t now_ms, bool is_forced);

/* In the child of a fork: cancels the purge that was under way. */
void ps_decay_salvage(void);

/* ---- of pages.c ---- */

/* In the child of a fork, on its only thread, after the page cache's part: repairs the locks; then,
 * with all locks free, recovers the state of sections that other threads were in. */
void ps_pages_fork_child(void);
void ps_pages_fork_salvage(void);

/* ---- of alone.c and shim/init.c ---- */

/* Starts the page layer and registers the fork handlers, once: in alone.c by itself, in
 * libpoolshim.so as a part of the engine's start. Any thread, without locks; cheap when started. */
PS_HOOK void ps_pages_start(void);

#endif
