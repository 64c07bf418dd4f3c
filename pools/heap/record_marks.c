/* SPDX-License-Identifier: MIT */
/*
 * See record_marks.h.
 */
#include "pools/heap/record_marks.h"

#include "pools/heap/record.h"
#include "pools/os/os.h"
#include "pools/page/metadata.h"
#include "pools/small/size_class.h"

#define TABLE_BYTES (((size_t)1 << PS_LEAF_SHIFT) >> PS_RECORD_MARK_SHIFT)

struct ps_record_kind ps_record_kinds[PS_CLASS_LIMIT];
uint8_t *ps_record_tables[PS_ROOT_COUNT];

void ps_record_marks_start(void) {
    size_t previous = 0; /* bytes of the class before */
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        size_t bytes = ps_size_classes[i].block_bytes;
        size_t number = ps_record_number_of(bytes);
        bool is_wide = number > UINT8_MAX;
        bool is_only = !is_wide && ps_record_number_of(previous + 1) == number;
        ps_record_kinds[i] =
            (struct ps_record_kind){.number = is_only ? (uint8_t)number : 0, .is_wide = is_wide};
        previous = bytes;
    }
}

PS_COLD uint8_t *ps_record_make_table(const void *block) {
    uint8_t *table = ps_metadata_map(TABLE_BYTES);
    uint8_t *other = NULL;
    if (table == NULL) {
        return NULL;
    }
    ps_os_advise_huge(table, TABLE_BYTES, false);
    uint8_t **place = &ps_record_tables[((uintptr_t)block >> PS_LEAF_SHIFT) & (PS_ROOT_COUNT - 1)];
    /* release: pairs with the acquire of those who read; the mapping is there. What a thread that
     * comes second has mapped stays unused, untouched: once in the life of a gigabyte. */
    return ps_cas_strong_acq_rel(place, &other, table) ? table : other;
}
