/* SPDX-License-Identifier: MIT */
/*
 * See record_sizes.h.
 */
#include "pools/engine/record/record_sizes.h"

#include "pools/engine/record/record.h"
#include "pools/engine/small/size_class.h"

struct ps_record_kind ps_record_kinds[PS_CLASS_LIMIT];

void ps_record_sizes_start(void) {
    size_t previous = 0; /* block size of the previous class */
    for (uint32_t i = 0; i < ps_size_class_all_count; i++) {
        size_t bytes = ps_size_classes[i].block_bytes;
        size_t number = ps_record_number_of(bytes);
        bool is_wide = number > UINT8_MAX;
        bool is_only = !is_wide && ps_record_number_of(previous + 1) == number;
        ps_record_kinds[i] =
            (struct ps_record_kind){.number = is_only ? (uint8_t)number : 0, .is_wide = is_wide};
        previous = bytes;
    }
}
