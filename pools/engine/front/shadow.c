/* SPDX-License-Identifier: MIT */
/*
 * See shadow.h.
 */
#include "pools/engine/front/shadow.h"

#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"

#define TABLE_BYTES (((size_t)1 << PS_LEAF_SHIFT) >> PS_SHADOW_SHIFT)

PS_COLD uint8_t *ps_shadow_make(const void *block) {
    uint8_t *table = ps_metadata_map(TABLE_BYTES);
    uint8_t *other = NULL;
    if (table == NULL) {
        return NULL;
    }
    ps_huge_refuse(table, TABLE_BYTES);
    /* release: pairs with the acquire of ps_shadow_at. If two threads map a table, the second
     * mapping remains unused and untouched, once in the life of a leaf. */
    return ps_cas_strong_acq_rel(ps_shadow_place(block), &other, table) ? table : other;
}
