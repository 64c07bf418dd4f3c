/* SPDX-License-Identifier: MIT */
/*
 * The page map: from any address to the 128-byte slot of its 64 KiB granule, for every possible
 * pointer; unknown ones lead to an all-zero slot. Free thus recognises foreign pointers without a
 * fault.
 *
 *   window  an array of slots: of the addresses from somewhat below the lowest arena to the end of
 *           the first one, up to 128 GiB. It grows with the arenas
 *   root    65,536 entries, one for 4 GiB: all other addresses; touched if it is used
 *   branch  128 entries, one for 32 MiB
 *   leaf    512 slots, one for 64 KiB
 *
 * The kernel places mappings below each other, so all but the largest heaps lie in the window: no
 * load that depends on the address, and a branch that is predicted. The next malloc of a class
 * depends on the address to which free stores, so a pair of malloc and free takes longer by the
 * latency of each dependent load: with a table of leaves instead of the array, bench/pair took 1.11
 * times as long, and with root, branch and leaf for all addresses 1.5 times.
 *
 * The array lies far from all other mappings, so that it can grow where it is; the unneeded part of
 * it is not mapped, for it would count: to RLIMIT_AS, and to what mlockall() may lock. If another
 * mapping is in its way, the other tables serve.
 *
 * Leaves are small so that little is mapped. With leaves of 1 GiB (2 MiB of root, 2 MiB of zeroes,
 * 2 MiB for the first arena) mlockall() made all of that resident and failed under the usual limit
 * of 8 MiB. And no leaf could be mapped in the last 2 MiB of an address-space limit.
 *
 * A slot has two tenants. Bytes 0..95 belong to the user of the run that starts there (a slab, a
 * large block); the last 32 bytes are the page layer's own `struct ps_run`. Slots are never moved
 * or unmapped, so a late reader sees old data instead of faulting.
 *
 * Readers: any thread, no lock. Writer of all tables: ps_page_map_cover, under the page lock.
 */
#ifndef PS_PAGE_PAGE_MAP_H
#define PS_PAGE_PAGE_MAP_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_GRANULE_SHIFT 16
#define PS_GRANULE_BYTES ((size_t)1 << PS_GRANULE_SHIFT)
#define PS_SLOT_SHIFT 7
#define PS_SLOT_BYTES ((size_t)1 << PS_SLOT_SHIFT)
#define PS_TENANT_BYTES 96 /* of a slot, for the user of the run */

/* One leaf covers 32 MiB of addresses, one branch 4 GiB; user addresses have at most 48 bits. */
#define PS_LEAF_SHIFT 25
#define PS_BRANCH_SHIFT 32
#define PS_ADDRESS_BITS 48
#define PS_ROOT_COUNT ((size_t)1 << (PS_ADDRESS_BITS - PS_BRANCH_SHIFT))
#define PS_BRANCH_COUNT ((size_t)1 << (PS_BRANCH_SHIFT - PS_LEAF_SHIFT))
#define PS_WINDOW_LEAVES ((size_t)4096) /* most that the window has */
#define PS_LEAF_SLOTS ((size_t)1 << (PS_LEAF_SHIFT - PS_GRANULE_SHIFT))
#define PS_LEAF_BYTES (PS_LEAF_SLOTS * PS_SLOT_BYTES)

/* The state of a run. Zero, as in the all-zero leaf and in unused slots, means NONE. */
enum ps_run_kind {
    PS_RUN_NONE = 0, /* not a head: foreign address, or the inside of a run */
    PS_RUN_FREE,     /* in the page cache */
    PS_RUN_BUSY,     /* between owners: being purged or transferred */
    PS_RUN_INSIDE,   /* inside of a slab; `back` granules after its head */
    PS_RUN_BLOCK,    /* one large block */
    PS_RUN_MAPPING,  /* one large block in a mapping of its own */
    PS_RUN_MEDIUM,   /* a granule of a region of medium blocks, `back` after its head: medium.h */
    PS_RUN_PAGES,    /* a granule that the pools library allocates by pages: pages/depot.h */
    PS_RUN_GUARD,    /* a granule of the pool of guarded samples: harden/guard.h */
    PS_RUN_ZERO,     /* a granule of inaccessible blocks of size 0: harden/stray.h */
    PS_RUN_SLAB,     /* head of a slab: front/slab.h */
};

/* Accessible part of a granule, while blocks are hardened: see ps_page_cache_is_shut. */
enum ps_access {
    PS_ACCESS_NONE = 0, /* no page: never opened */
    PS_ACCESS_ALL,
    PS_ACCESS_ALL_BUT_END, /* all but the last page */
    PS_ACCESS_UNKNOWN,
};

/* The page layer's part of a slot. Valid in the first slot of a run; free runs also set their
 * last. */
struct ps_run {
    struct ps_run *next; /* page lock while free, otherwise the tenant's */
    struct ps_run *prev;
    char *base;           /* first byte of the run */
    uint32_t granules;    /* length */
    uint8_t kind;         /* enum ps_run_kind; written by the holder, read by any free() */
    uint8_t is_dirty : 1; /* backed by memory that may not be zero */
    uint8_t is_huge : 1;  /* lies in an arena that asked for huge pages */
    uint8_t is_stuck : 1; /* dirty and free, refused by the system when purged */
    uint8_t access : 2;   /* enum ps_access, of each granule; written by the holder */
    uint8_t node : 3;     /* of its arena: node.h */
    uint16_t back;        /* PS_RUN_INSIDE, last slot of a free run: granules to the head; else 0 */
};

struct ps_slot {
    PS_ALIGNED(PS_CACHE_LINE) unsigned char tenant[PS_TENANT_BYTES];
    struct ps_run run;
};

_Static_assert(sizeof(struct ps_run) == 32, "the run fills the rest of the slot");
_Static_assert(sizeof(struct ps_slot) == PS_SLOT_BYTES, "slot index is a shift");

struct ps_branch {
    uintptr_t x_leaves[PS_BRANCH_COUNT]; /* distance from zero_leaf to the leaf */
    uint8_t *x_shadow[PS_BRANCH_COUNT];  /* of the same addresses: front/shadow.h; NULL: none */
};

/* A granule has index -1 when it is the last one below x_end, and so on downwards. */
struct ps_window {
    PS_ALIGNED(PS_CACHE_LINE) uintptr_t x_end; /* of the addresses, a multiple of a leaf's */
    uintptr_t x_reach;                         /* index of the lowest granule in the window */
    uintptr_t x_slots_end;                     /* of the array */
};

extern PS_HIDDEN struct ps_window ps_window;

/* The zeroes serve all addresses without memory of ours. An entry is the distance from them to the
 * real branch or leaf: an untouched entry is right as it is, with no start-up work. */
struct ps_page_map {
    uint8_t *x_window_shadow[PS_WINDOW_LEAVES]; /* downwards from x_end, as of a branch */
    uintptr_t x_root[PS_ROOT_COUNT];            /* distance from zero_branch to the branch */
    struct ps_branch zero_branch;
    struct ps_slot zero_leaf[PS_LEAF_SLOTS];
};

extern PS_HIDDEN struct ps_page_map ps_page_map;

/* The map as lookups use it: one base address for all three tables, where the compiler would
 * materialise one for each. Saves four instructions in free(). */
PS_INLINE struct ps_page_map *ps_page_map_tables(void) {
    struct ps_page_map *map = &ps_page_map;
    PS_OPAQUE(map);
    return map;
}

/* Index of an address in the window; below x_reach if it lies outside. */
PS_INLINE uintptr_t ps_window_index(const void *address) {
    /* relaxed: as in ps_page_map_slot. */
    uintptr_t distance = (uintptr_t)address - ps_load_once(&ps_window.x_end);
    return (uintptr_t)((intptr_t)distance >> PS_GRANULE_SHIFT);
}
PS_INLINE bool ps_window_has(uintptr_t index) {
    return index >= ps_load_once(&ps_window.x_reach); /* relaxed: as in ps_page_map_slot */
}

/* The branch of any address outside of the window; zero_branch if it has none. */
PS_INLINE struct ps_branch *ps_page_map_branch(struct ps_page_map *map, const void *address) {
    uintptr_t index = ((uintptr_t)address >> PS_BRANCH_SHIFT) & (PS_ROOT_COUNT - 1);
    /* relaxed: as in ps_page_map_slot. */
    uintptr_t distance = ps_load_relaxed(&map->x_root[index]);
    return (struct ps_branch *)((char *)&map->zero_branch + distance);
}

_Static_assert(PS_BRANCH_SHIFT == 32, "the low half of an address");

static inline size_t ps_branch_index(const void *address) {
    return (uint32_t)(uintptr_t)address >> PS_LEAF_SHIFT;
}

PS_INLINE struct ps_slot *ps_page_map_slot_outside(const void *address) {
    struct ps_page_map *map = ps_page_map_tables();
    const struct ps_branch *branch = ps_page_map_branch(map, address);
    /* relaxed: as in ps_page_map_slot. */
    uintptr_t distance = ps_load_relaxed(&branch->x_leaves[ps_branch_index(address)]);
    uintptr_t offset = ((uintptr_t)address >> (PS_GRANULE_SHIFT - PS_SLOT_SHIFT)) &
                       ((PS_LEAF_SLOTS - 1) << PS_SLOT_SHIFT);
    return (struct ps_slot *)((char *)map->zero_leaf + (distance + offset));
}

/* The slot of any address. Cost: address arithmetic; outside of the window two loads more. */
PS_INLINE struct ps_slot *ps_page_map_slot(const void *address) {
    /* relaxed, all: a thread that has a pointer of ours got it after the words were stored, by the
     * same synchronisation that gave it the pointer; for any other address all values are right. */
    uintptr_t index = ps_window_index(address);
    if (PS_UNLIKELY(!ps_window_has(index))) {
        return ps_page_map_slot_outside(address);
    }
    return (struct ps_slot *)(ps_load_once(&ps_window.x_slots_end) + (index << PS_SLOT_SHIFT));
}

PS_INLINE struct ps_slot *ps_slot_of_run(struct ps_run *run) {
    return PS_CONTAINER_OF(run, struct ps_slot, run);
}

/*
 * Tags: a word for each granule of the window, apart from the slots, so that a processor's cache
 * has room for the tags of many granules: of a slab of one granule (front/slab.h); 0: anything
 * else. The user of a granule clears its tag before the granule gets another user. Outside of the
 * window the tag is always 0. When the window outgrows the table, the next one begins with 0: a
 * thread that has a block of a slab without a tag sets it again. Any thread.
 */
extern PS_HIDDEN uint32_t *ps_page_map_x_tags; /* behind the last; downwards, as ps_window */

PS_INLINE uint32_t ps_page_map_tag(const void *address) {
    uintptr_t index = ps_window_index(address);
    /* relaxed, both: as in ps_page_map_slot. */
    return ps_window_has(index) ? ps_load_relaxed(&ps_load_relaxed(&ps_page_map_x_tags)[index]) : 0;
}

/* False: it is always 0. */
static inline bool ps_page_map_has_tag(const void *address) {
    return ps_window_has(ps_window_index(address));
}

static inline void ps_page_map_set_tag(const void *address, uint32_t tag) {
    uintptr_t index = ps_window_index(address);
    if (ps_window_has(index)) {
        /* relaxed, both: a thread that gets a block of the granule gets the tag, too. */
        ps_store_relaxed(&ps_load_relaxed(&ps_page_map_x_tags)[index], tag);
    }
}

/* The entry with the shadow bytes of a leaf's addresses (front/shadow.h). */
static inline uint8_t **ps_page_map_shadow(const void *address) {
    struct ps_page_map *map = ps_page_map_tables();
    uintptr_t index = ps_window_index(address);
    return ps_window_has(index)
               ? &map->x_window_shadow[~index / PS_LEAF_SLOTS]
               : &ps_page_map_branch(map, address)->x_shadow[ps_branch_index(address)];
}

/* Finds a place for the window. Once, at start; else the first call of the next does it. */
void ps_page_map_start(void);

/* Makes slots for [base, base + bytes); the first call lays the window. Under the page lock. False
 * when metadata memory ran out; a later call finds the leaves made so far. */
bool ps_page_map_cover(const void *base, size_t bytes);

#endif
