/* SPDX-License-Identifier: MIT */
/*
 * Medium blocks: runs of whole 4 KiB pages, fewer than half a MiB of them, shared by all threads.
 *
 * They lie in regions of 1 MiB, which come from the page cache. A region has two bits per page:
 * free, and dirty (its contents may be non-zero). Adjacent free pages are one hole, dirty or clean,
 * so freeing merges nothing, and purging works page by page. A request is served from the region
 * whose longest hole is the shortest that suffices, and there from the shortest hole that does, the
 * lowest of equals: regions with long holes empty themselves. A region without blocks returns to
 * the page cache. (Bit maps with the longest free range of each huge page after Google tcmalloc's
 * hugepage filler.)
 *
 * All of this state is in the slots of the page map: a free page is never touched. Each granule of
 * a region leads to its head by `back`, and has a byte for each of its pages: the mark of the block
 * that starts there. The mark of a block in use is changed outside of the lock.
 * When memory is exhausted a slab may borrow granules of a region (medium_lend.c); their slots are
 * then its own.
 *
 * Why not slabs: a slab of a class above 8 KiB has a few blocks of one size. In servers with many
 * threads two thirds of all free memory was in such slabs. Why not runs of the
 * page cache: these are 64 KiB at least.
 *
 * Any thread; the lock of a shard (medium_regions.h), held for a walk over the bits of a region.
 * Callers: heap/medium_path.c, front/store.c, medium_purge.c, record/census.c.
 */
#ifndef PS_PAGE_MEDIUM_H
#define PS_PAGE_MEDIUM_H

#include "pools/engine/page/page_bits.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_MEDIUM_PAGE_SHIFT 12
#define PS_MEDIUM_PAGE_BYTES ((size_t)1 << PS_MEDIUM_PAGE_SHIFT)
#define PS_MEDIUM_GRANULE_PAGES (PS_GRANULE_BYTES >> PS_MEDIUM_PAGE_SHIFT)
#define PS_MEDIUM_GRANULES (PS_PAGE_BITS / PS_MEDIUM_GRANULE_PAGES)

/* Longest block, and largest alignment, in pages. */
#define PS_MEDIUM_PAGES_LIMIT ((size_t)127)
#define PS_MEDIUM_ALIGN_LIMIT PS_MEDIUM_GRANULE_PAGES
#define PS_MEDIUM_BYTES_LIMIT (PS_MEDIUM_PAGES_LIMIT << PS_MEDIUM_PAGE_SHIFT)

/* A mark: 0 if no block starts there, otherwise its length in pages, and a flag for a free block in
 * a thread's cache. */
#define PS_MEDIUM_WAITS 0x80
#define PS_MEDIUM_SAMPLED PS_MEDIUM_WAITS /* without a length: see heap/medium_path.h */

/* The tenant's part of the slot of each granule of a region. */
struct ps_medium_granule {
    uint8_t x_marks[PS_MEDIUM_GRANULE_PAGES]; /*  0 */
};

/*
 * And of its first one. free_pages == bits in free; dirty_free == bits in free & dirty;
 * longest == the longest hole in free. Lock, x_marks excepted; the run's next and prev link
 * regions.
 */
struct ps_medium_region {
    struct ps_medium_granule granule;  /*  0 */
    uint64_t free[PS_PAGE_BIT_WORDS];  /* 16 */
    uint64_t dirty[PS_PAGE_BIT_WORDS]; /* 48 */
    uint16_t longest;                  /* 80 in pages */
    uint16_t free_pages;               /* 82 */
    uint16_t dirty_free;               /* 84 */
    uint8_t is_refused;                /* 86 purging was refused; no page was freed since */
    uint8_t x_shard;                   /* 87 see medium_regions.h */
};

_Static_assert(sizeof(struct ps_medium_region) <= PS_TENANT_BYTES, "a tenant's half of a slot");

/* A block by its address and its length in pages, in one word. */
typedef uintptr_t ps_medium_block;

static inline ps_medium_block ps_medium_block_of(const void *address, size_t pages) {
    return (uintptr_t)address | pages;
}
static inline size_t ps_medium_pages_of(ps_medium_block block) {
    return block & (PS_MEDIUM_PAGE_BYTES - 1);
}
static inline char *ps_medium_address_of(ps_medium_block block) {
    return (char *)(block & ~(uintptr_t)(PS_MEDIUM_PAGE_BYTES - 1));
}

/* The mark of the page of an address in a region. slot: the address's. */
static inline uint8_t *ps_medium_mark(const struct ps_slot *slot, const void *address) {
    size_t page = ((uintptr_t)address >> PS_MEDIUM_PAGE_SHIFT) % PS_MEDIUM_GRANULE_PAGES;
    return &((struct ps_medium_granule *)slot)->x_marks[page];
}

struct ps_medium_counts {
    uint64_t region_count;
    uint64_t dirty_pages;   /* free, backed by memory */
    uint64_t refused_pages; /* dirty pages whose purge the system refused */
    uint64_t clean_pages;   /* free, not backed */
};

/* The processors that the process may use: the number of its locks depends on it. Any thread. */
void ps_medium_set_processors(uint32_t count);

/* Allocates a block without a mark. pages: 1..PS_MEDIUM_PAGES_LIMIT, align: a power of two of pages
 * up to PS_MEDIUM_ALIGN_LIMIT; both of whole OS pages. NULL when memory is exhausted. */
char *ps_medium_take(size_t pages, size_t align, bool *is_zero);

/* The node of a block's memory (node.h). */
uint32_t ps_medium_node_of(ps_medium_block block);

/* Returns blocks, or parts of them; none has a mark. */
void ps_medium_give(const ps_medium_block *blocks, size_t count);

/* Lengthens a block by the `more` pages after it. Returns false when these are not free. The caller
 * changes the mark. */
bool ps_medium_extend(ps_medium_block block, size_t more);

/*
 * Lends granules to a slab: a run, BUSY, cut out of a region where all their pages are free. For
 * when the page cache has none: a region that a few blocks pin has up to 15 granules without any.
 * *at: the index of the first of them in the region, never 0, where the region's own account lies.
 * NULL: no region has so many next to each other. (medium_lend.c)
 *
 * Their slots are the slab's until ps_medium_take_back, which frees the pages again.
 */
struct ps_run *ps_medium_lend(size_t granules, size_t *at);
void ps_medium_take_back(struct ps_run *run, size_t at);

/* Makes the slot of a granule a region's, without blocks. index: in the region. */
void ps_medium_mark_granule(char *base, size_t index);

/* True unless the granule of a slot in a region is lent: its slot has marks. */
static inline bool ps_medium_has_marks(const struct ps_slot *slot) {
    return ps_load_relaxed(&slot->run.kind) == PS_RUN_MEDIUM; /* relaxed: a snapshot */
}

/* Blocks of a front, all of so many pages, in this process or left behind by a fork. The mark of
 * each tells that it is free. Up to PS_MEDIUM_AT_ONCE of them. */
#define PS_MEDIUM_AT_ONCE 32
void ps_medium_give_waiting(void *const *blocks, size_t count, size_t pages);

/* In the child of a fork: returns a block that a front of another thread had, as far as its mark
 * and its region agree. */
void ps_medium_fork_add(void *block, size_t pages);

/* True if the page of an address in a region is free; for reports of misuse. */
bool ps_medium_is_free(const void *address);

void ps_medium_count(struct ps_medium_counts *out);

/* Returns empty regions to the page cache, except `kept`. */
void ps_medium_drop_empty(size_t kept);

void ps_medium_fork_child(void);

/* ---- purge (medium_purge.c) ---- */

/*
 * When the free pages of medium blocks return to the OS: by the rule of purge.h, a page that was
 * free and dirty for the whole of the last delay. Pages in the longest holes are purged first,
 * because they are allocated last. Any thread; lock PS_RANK_MEDIUM_PURGE, held over system calls:
 * only ps_medium_purge_all blocks on it.
 */

/* Reads the clock and purges pages that are due, a bounded number per call. */
void ps_medium_purge_tick(uint64_t now_ms);

/* True if a step has left pages that are due: the clock is to be read again soon. */
bool ps_medium_purge_is_behind(void);

/* Purges so many pages now, at most as many as a tick does, whether they are due or not. Returns
 * how many went back; 0 where another thread is about it. */
uint64_t ps_medium_purge_some(uint64_t pages);

/* Purges all, at once. Returns whether any memory was returned. */
bool ps_medium_purge_all(void);

void ps_medium_purge_fork_child(void);

#endif
