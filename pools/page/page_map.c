/* SPDX-License-Identifier: MIT */
/*
 * The page map's storage. See page_map.h. Called by arena.c and heap/mapping.c under the page
 * lock; calls metadata.c.
 */
#include "pools/page/page_map.h"

#include "pools/os/os.h"
#include "pools/page/metadata.h"

/* From so many leaves on, they are a mapping of their own, without what is left of pieces. */
#define BULK_LEAVES 4

PS_ALIGNED(4096) struct ps_page_map ps_page_map;

/* The only one that most programs need, on a page of memory that is touched anyway. Page lock. */
static struct ps_branch first_branch;
static bool is_first_branch_taken;

/* Leaves that were mapped together and are not in the map yet. Page lock; no undo log: in the child
 * of a fork between two of these stores one leaf may be lost, none is used twice. */
static char *spare_next;
static size_t spare_count;

static const void *address_of(size_t leaf_index) {
    return (const void *)(leaf_index << PS_LEAF_SHIFT);
}

static bool is_covered(size_t leaf_index) {
    const struct ps_branch *branch = ps_page_map_branch(&ps_page_map, address_of(leaf_index));
    return branch->x_leaves[ps_branch_index(address_of(leaf_index))] != 0;
}

/* Many leaves cost one system call; one that is refused, and they are taken one by one. */
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
            ps_os_advise_huge(spare_next, missing * PS_LEAF_BYTES, false);
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

static struct ps_branch *take_branch(void) {
    if (is_first_branch_taken) {
        return ps_metadata_take(sizeof(struct ps_branch));
    }
    is_first_branch_taken = true;
    ps_fence_program_order(); /* in the child of a fork here it is lost, not used twice */
    return &first_branch;
}

/* The branch of an address, made if it is not there. NULL when memory is out. */
static struct ps_branch *make_branch(const void *address) {
    struct ps_branch *branch = ps_page_map_branch(&ps_page_map, address);
    if (branch == &ps_page_map.zero_branch) {
        branch = take_branch();
        if (branch != NULL) {
            /* release: a reader that races with us on a foreign address must see zeroes. */
            ps_store_release(&ps_page_map.x_root[(uintptr_t)address >> PS_BRANCH_SHIFT],
                             (uintptr_t)branch - (uintptr_t)&ps_page_map.zero_branch);
        }
    }
    return branch;
}

static bool cover_leaf(size_t leaf_index) {
    struct ps_branch *branch = make_branch(address_of(leaf_index));
    char *leaf = branch != NULL ? take_leaf() : NULL;
    if (leaf == NULL) {
        return false;
    }
    /* release: as in make_branch. */
    ps_store_release(&branch->x_leaves[ps_branch_index(address_of(leaf_index))],
                     (uintptr_t)leaf - (uintptr_t)ps_page_map.zero_leaf);
    return true;
}

bool ps_page_map_cover(const void *base, size_t bytes) {
    size_t first = (uintptr_t)base >> PS_LEAF_SHIFT;
    size_t last = ((uintptr_t)base + bytes - 1) >> PS_LEAF_SHIFT;
    if (last >= PS_ROOT_COUNT * PS_BRANCH_COUNT) {
        return false; /* the kernel gives such addresses only to those who ask for them */
    }
    map_spare(first, last);
    for (size_t index = first; index <= last; index++) {
        if (!is_covered(index) && !cover_leaf(index)) {
            return false;
        }
    }
    return true;
}
