/* SPDX-License-Identifier: MIT */
/*
 * Storage of the page map. See page_map.h. Called by arena.c and heap/mapping.c under the page
 * lock; calls metadata.c.
 */
#include "pools/engine/page/page_map.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"

/* From this many leaves on, they get a mapping of their own instead of pieces. */
#define BULK_LEAVES 4

/* Most leaves of other mappings that the window takes in to reach the next arena: 8 GiB. */
#define GAP_LEAVES ((size_t)256)

/* Leaves that the window begins with: the next arena, which is just below as a rule, needs no more.
 */
#define FIRST_LEAVES ((size_t)3)

#define LEAF_RANGE ((uintptr_t)1 << PS_LEAF_SHIFT)

PS_SPARSE PS_ALIGNED(4096) struct ps_page_map ps_page_map;

/* No address is in it yet. x_slots_end: for a foreign address of the first leaf, while that is
 * laid. */
struct ps_window ps_window = {.x_end = (uintptr_t)1 << 63,
                              .x_reach = UINTPTR_MAX,
                              .x_slots_end = (uintptr_t)(ps_page_map.zero_leaf + PS_LEAF_SLOTS)};

static bool is_window_laid; /* page lock */
static char *first_slots;   /* of the window; NULL: there is no place for them yet */

/* Leaves that were mapped together and are not in the map yet. Page lock; no undo log: in the child
 * of a fork between two of these stores one leaf may be lost, none is used twice. */
static char *spare_next;
static size_t spare_count;

static const void *address_of(size_t leaf_index) {
    return (const void *)(leaf_index << PS_LEAF_SHIFT);
}

/* The entry of the branch for an address outside of the window. */
static uintptr_t *entry_of(const void *address) {
    return &ps_page_map_branch(&ps_page_map, address)->x_leaves[ps_branch_index(address)];
}

static bool is_covered(size_t leaf_index) {
    const void *address = address_of(leaf_index);
    return ps_window_has(ps_window_index(address)) || *entry_of(address) != 0;
}

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
    if (ps_page_map_branch(&ps_page_map, address) != &ps_page_map.zero_branch) {
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

/* ---- tags ---- */

/* Serves the leaves that the window begins with. */
#define FEW_TAGS (FIRST_LEAVES * PS_LEAF_SLOTS)
static uint32_t few_tags[FEW_TAGS];
uint32_t *ps_page_map_x_tags = few_tags + FEW_TAGS;
static size_t open_tags = FEW_TAGS; /* below that address; page lock */

/* For all leaves that it may have. Inaccessible beyond those that it has, since mlockall() makes
 * accessible memory resident; reserved late, since the limit of locked memory counts addresses. */
#define TAGS_BYTES (PS_WINDOW_LEAVES * PS_LEAF_SLOTS * sizeof(uint32_t))

/* Makes the tags of so many granules accessible. Another table begins without tags. */
static bool open_more_tags(size_t granules) {
    uint32_t *tags = ps_page_map_x_tags;
    size_t open = open_tags;
    size_t wanted = ps_round_up(granules, ps_os_page_bytes());
    if (granules <= open) {
        return true;
    }
    if (tags == few_tags + FEW_TAGS) {
        char *base = ps_metadata_map_closed(TAGS_BYTES);
        if (base == NULL) {
            return false;
        }
        tags = (uint32_t *)(void *)(base + TAGS_BYTES);
        open = 0;
    }
    if (!ps_os_protect(tags - wanted, (wanted - open) * sizeof *tags, true)) {
        return false; /* a table without tags may be lost */
    }
    open_tags = wanted;
    ps_store_release(&ps_page_map_x_tags, tags); /* release: it is accessible, and zero */
    return true;
}

/* ---- the window ---- */

/* About half way from the stack to address 0: mappings and programs usually lie above. Random, so
 * that no block's address tells it. */
static char *place_of_slots(uintptr_t stack) {
    uintptr_t place = stack / 2 - ps_os_random() % (stack / 8 + 1);
    return (char *)ps_round_down(place, PS_LEAF_BYTES);
}

/* With the engine, not with the first arena: then the process may have reached a limit. */
void ps_page_map_start(void) {
    char *place = place_of_slots((uintptr_t)__builtin_frame_address(0));
    if (first_slots == NULL && ps_metadata_map_at(place, FIRST_LEAVES * PS_LEAF_BYTES)) {
        first_slots = place;
    }
}

/* True when any of these addresses has a leaf, whose slots must not move. */
static bool has_leaf(size_t begin, size_t end) {
    while (begin < end && *entry_of(address_of(begin)) == 0) {
        begin++;
    }
    return begin < end;
}

/* Places the window so that it ends after the first covered range, and includes the last leaf of
 * that range. A reader that does not see it yet has no address of ours. */
static void lay_window(uintptr_t end) {
    if (is_window_laid) {
        return;
    }
    ps_page_map_start();
    size_t leaves = first_slots != NULL ? FIRST_LEAVES : 1;
    size_t end_leaf = ps_round_up(end, LEAF_RANGE) >> PS_LEAF_SHIFT;
    if (has_leaf(end_leaf - leaves, end_leaf)) {
        return;
    }
    char *slots = first_slots != NULL ? first_slots : ps_metadata_take(PS_LEAF_BYTES);
    if (slots != NULL) {
        /* relaxed, both: published with the next. */
        ps_store_relaxed(&ps_window.x_end, ps_round_up(end, LEAF_RANGE));
        ps_store_relaxed(&ps_window.x_slots_end, (uintptr_t)slots + leaves * PS_LEAF_BYTES);
        /* release: pairs with nothing on most readers' side: see ps_page_map_slot. */
        ps_store_release(&ps_window.x_reach, -(uintptr_t)(leaves * PS_LEAF_SLOTS));
        ps_fence_program_order(); /* in the child of a fork here it is laid again, still empty */
        is_window_laid = true;
    }
}

/* Leaves from one to the window's lowest, without that, if the window can take them in; else 0. */
static size_t leaves_down_to(size_t leaf_index, size_t leaves) {
    size_t end = ps_window.x_end >> PS_LEAF_SHIFT;
    size_t lowest = end - -ps_window.x_reach / PS_LEAF_SLOTS;
    bool is_near = first_slots != NULL && leaf_index < lowest &&
                   end - leaf_index <= PS_WINDOW_LEAVES &&
                   lowest - leaf_index <= leaves + GAP_LEAVES;
    return is_near && !has_leaf(leaf_index, lowest) ? lowest - leaf_index : 0;
}

/* Takes a range below the window in. Without success where the system has put something beside the
 * slots, or memory is out. */
static void widen_window(size_t leaf_index, size_t leaves) {
    size_t count = leaves_down_to(leaf_index, leaves);
    size_t bytes = count * PS_LEAF_BYTES;
    uintptr_t lowest = ps_window.x_slots_end + (ps_window.x_reach << PS_SLOT_SHIFT);
    if (count != 0 && open_more_tags(-ps_window.x_reach + count * PS_LEAF_SLOTS) &&
        ps_metadata_map_at((char *)lowest - bytes, bytes)) {
        ps_huge_refuse((char *)lowest - bytes, bytes); /* touched sparsely */
        /* release: as in lay_window. */
        ps_store_release(&ps_window.x_reach, ps_window.x_reach - count * PS_LEAF_SLOTS);
    }
}

bool ps_page_map_cover(const void *base, size_t bytes) {
    size_t first = (uintptr_t)base >> PS_LEAF_SHIFT;
    size_t last = ((uintptr_t)base + bytes - 1) >> PS_LEAF_SHIFT;
    if (last >= PS_ROOT_COUNT * PS_BRANCH_COUNT) {
        return false; /* the kernel maps such addresses only on request */
    }
    lay_window((uintptr_t)base + bytes);
    widen_window(first, last + 1 - first);
    map_spare(first, last);
    for (size_t index = first; index <= last; index++) {
        if (!is_covered(index) && !cover_leaf(index)) {
            return false;
        }
    }
    return true;
}
