/* SPDX-License-Identifier: MIT */
/*
 * Storage of the page map. See page_map.h. Called by arena.c and heap/mapping.c under the page
 * lock; calls metadata.c.
 */
#include "pools/engine/page/page_map.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"

/* From this many leaves on, they get a mapping of their own instead of pieces. */
#define BULK_LEAVES 4

/* Leaves of the window above the first arena, where programs place mappings of their own. */
#define WINDOW_ABOVE ((uintptr_t)256)

PS_ALIGNED(4096) struct ps_page_map ps_page_map;

static bool is_window_laid; /* page lock */

/* Leaves that were mapped together and are not in the map yet. Page lock; no undo log: in the child
 * of a fork between two of these stores one leaf may be lost, none is used twice. */
static char *spare_next;
static size_t spare_count;

static const void *address_of(size_t leaf_index) {
    return (const void *)(leaf_index << PS_LEAF_SHIFT);
}

/* The entry of an address, in the window or in its branch. */
static uintptr_t *entry_of(const void *address) {
    size_t index = ps_window_index(&ps_page_map, address);
    return index < PS_WINDOW_COUNT
               ? &ps_page_map.window.x_leaves[index]
               : &ps_page_map_branch(&ps_page_map, address)->x_leaves[ps_branch_index(address)];
}

static bool is_covered(size_t leaf_index) { return *entry_of(address_of(leaf_index)) != 0; }

/* Maps many leaves by one system call; if that is refused, they are mapped one by one. */
static void map_spare(size_t first, size_t last) {
    size_t missing = 0;
    for (size_t index = first; index <= last; index++) {
        missing += !is_covered(index);
    }
    if (missing >= BULK_LEAVES && spare_count == 0) {
        spare_next = ps_metadata_map(missing * PS_LEAF_BYTES);
        ps_fence_program_order();
        spare_count = spare_next != NULL ? missing : 0;
        if (spare_count != 0) { /* touched sparsely */
            ps_huge_refuse(spare_next, missing * PS_LEAF_BYTES);
        }
    }
}

static char *take_leaf(void) {
    if (spare_count == 0) {
        return ps_metadata_take(PS_LEAF_BYTES);
    }
    char *leaf = spare_next;
    spare_count--;
    ps_fence_program_order();
    spare_next += PS_LEAF_BYTES;
    return leaf;
}

/* Adds the branch of an address, if it is needed and missing. Returns false when memory is
 * exhausted. */
static bool make_branch(const void *address) {
    if (ps_window_index(&ps_page_map, address) < PS_WINDOW_COUNT ||
        ps_page_map_branch(&ps_page_map, address) != &ps_page_map.zero_branch) {
        return true;
    }
    const struct ps_branch *branch = ps_metadata_take(sizeof *branch);
    if (branch == NULL) {
        return false;
    }
    /* release: a concurrent lookup of a foreign address must read zeroes. */
    ps_store_release(&ps_page_map.x_root[(uintptr_t)address >> PS_BRANCH_SHIFT],
                     (uintptr_t)branch - (uintptr_t)&ps_page_map.zero_branch);
    return true;
}

static bool cover_leaf(size_t leaf_index) {
    const void *address = address_of(leaf_index);
    char *leaf = make_branch(address) ? take_leaf() : NULL;
    if (leaf == NULL) {
        return false;
    }
    /* release: as in make_branch. */
    ps_store_release(entry_of(address), (uintptr_t)leaf - (uintptr_t)ps_page_map.zero_leaf);
    return true;
}

/* Places the window around the first covered address. Mappings usually proceed downwards, so most
 * of the window lies below. A reader that does not see the base yet has no address of ours. */
static void lay_window(const void *base) {
    if (!is_window_laid) {
        uintptr_t end = ps_round_down((uintptr_t)base, (size_t)1 << PS_LEAF_SHIFT) +
                        (WINDOW_ABOVE << PS_LEAF_SHIFT);
        /* relaxed: published with the first leaf. */
        ps_store_relaxed(&ps_page_map.window.x_base, end - (PS_WINDOW_COUNT << PS_LEAF_SHIFT));
        ps_fence_program_order(); /* in the child of a fork it is placed again, still empty */
        is_window_laid = true;
    }
}

bool ps_page_map_cover(const void *base, size_t bytes) {
    size_t first = (uintptr_t)base >> PS_LEAF_SHIFT;
    size_t last = ((uintptr_t)base + bytes - 1) >> PS_LEAF_SHIFT;
    if (last >= PS_ROOT_COUNT * PS_BRANCH_COUNT) {
        return false; /* the kernel maps such addresses only on request */
    }
    lay_window(base);
    map_spare(first, last);
    for (size_t index = first; index <= last; index++) {
        if (!is_covered(index) && !cover_leaf(index)) {
            return false;
        }
    }
    return true;
}
