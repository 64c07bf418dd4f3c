/* SPDX-License-Identifier: MIT */
/*
 * See partition.h: parts of the plain heap, which have fronts. No locks.
 */
#include "pools/engine/front/partition.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/front.h"
#include "pools/engine/page/metadata.h"

struct ps_partition *ps_partition_parts;
uint32_t ps_partition_x_parts;

/* Not variables of the library: a process that locks its memory would pay for them without parts.
 */
bool ps_partition_map_parts(void) {
    size_t parts_bytes = PS_PARTITION_PARTS * sizeof *ps_partition_parts;
    size_t bytes = parts_bytes + PS_PARTITION_PARTS * sizeof *ps_front_parts;
    ps_partition_parts = ps_metadata_map(ps_round_up(bytes, PS_GRANULE_BYTES));
    if (ps_partition_parts == NULL) {
        return false;
    }
    ps_front_parts = (void *)((char *)ps_partition_parts + parts_bytes);
    return true;
}

bool ps_partition_begin_part(size_t index) {
    static uint32_t x_claims;
    struct ps_partition *part = &ps_partition_parts[index];
    uint32_t bit = (uint32_t)1 << index;
    if (PS_LIKELY((ps_load_acquire(&ps_partition_x_parts) & bit) != 0)) { /* acquire: see below */
        return true;
    }
    if ((ps_or_relaxed(&x_claims, bit) & bit) != 0) { /* relaxed: one thread finds it clear */
        return false;
    }
    ps_extents_make(&part->extents);
    part->fronts = ps_front_table_of_part(part, index);
    ps_store_relaxed(&part->x_state, (uint32_t)PS_PARTITION_LIVE); /* relaxed: see below */
    /* release: pairs with the load above; the part is complete. */
    ps_or_release(&ps_partition_x_parts, bit);
    return true;
}
