/* SPDX-License-Identifier: MIT */
/*
 * See hard_marks.h.
 */
#include "pools/heap/hard_marks.h"

#include "pools/page/metadata.h"

uint8_t *ps_hard_marks[PS_ROOT_COUNT];

PS_COLD uint8_t *ps_hard_marks_make(const void *block) {
    uint8_t *table = ps_metadata_map(PS_MARKS_BYTES);
    uint8_t *other = NULL;
    /* release: pairs with the acquire of ps_hard_marks_of; the mapping is there. What a thread that
     * comes second has mapped stays unused, untouched: once in the life of a gigabyte. */
    if (table != NULL &&
        !ps_cas_strong_acq_rel(&ps_hard_marks[ps_marks_index_of(block)], &other, table)) {
        return other;
    }
    return table;
}
