/* SPDX-License-Identifier: MIT */
/*
 * The page map's storage. See page_map.h. Called by arena.c and heap/mapping.c under the page
 * lock; calls metadata.c.
 */
#include "pools/page/page_map.h"

#include "pools/os/os.h"
#include "pools/page/metadata.h"

/* 64 KiB: a multiple of every page size, so that advice can be given for exactly these bytes. */
#define TABLE_ALIGN 65536

PS_ALIGNED(TABLE_ALIGN) struct ps_slot ps_page_map_zero_leaf[PS_LEAF_SLOTS];
PS_ALIGNED(TABLE_ALIGN) uintptr_t ps_page_map_root[PS_ROOT_COUNT];

void ps_page_map_start(void) {
    ps_os_advise_huge(ps_page_map_root, sizeof ps_page_map_root, false);
}

bool ps_page_map_cover(const void *base, size_t bytes) {
    size_t first = (uintptr_t)base >> PS_LEAF_SHIFT;
    size_t last = ((uintptr_t)base + bytes - 1) >> PS_LEAF_SHIFT;
    if (last >= PS_ROOT_COUNT) {
        return false; /* the kernel gives such addresses only to those who ask for them */
    }
    for (size_t index = first; index <= last; index++) {
        if (ps_page_map_root[index] != 0) {
            continue;
        }
        char *leaf = ps_metadata_map(PS_LEAF_BYTES);
        if (leaf == NULL) {
            return false;
        }
        ps_os_advise_huge(leaf, PS_LEAF_BYTES, false);
        /* release: a reader that races with us on a foreign address must see zeroes behind it. */
        ps_store_release(&ps_page_map_root[index],
                         (uintptr_t)leaf - (uintptr_t)ps_page_map_zero_leaf);
    }
    return true;
}
