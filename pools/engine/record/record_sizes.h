/* SPDX-License-Identifier: MIT */
/*
 * What each block was asked for while the program is recorded: the number of its size (record.h).
 * Many classes serve one size only, the built-in ones up to 128 bytes among them: no mark is needed
 * there. For the others it stands in the block's mark (shadow.h); a block of a class above 4064
 * bytes takes two of its own marks. Memory: a page for each granule with blocks that have marks, so
 * at most 6 %. Callers: record.c. Any thread that holds the block. No locks.
 */
#ifndef PS_RECORD_RECORD_SIZES_H
#define PS_RECORD_RECORD_SIZES_H

#include "pools/engine/base/config.h"
#include "pools/engine/heap/shadow.h"

#include <stddef.h>
#include <stdint.h>

/* Of a class. */
struct ps_record_kind {
    uint8_t number;  /* of the only size it serves; 0: it serves several */
    uint8_t is_wide; /* it serves several, and a byte does not hold their numbers */
};

extern PS_HIDDEN struct ps_record_kind ps_record_kinds[PS_CLASS_LIMIT];

/* Once, after the size classes. */
void ps_record_sizes_start(void);

/*
 * Notes the number of what a block was asked for, where its class leaves that open. Returns it; 0
 * when memory is out.
 */
static inline size_t ps_record_mark(const void *block, uint32_t class_index, size_t number) {
    struct ps_record_kind kind = ps_record_kinds[class_index];
    if (PS_LIKELY(kind.number != 0)) {
        return kind.number;
    }
    uint8_t *mark = ps_shadow_make_at(block);
    if (PS_UNLIKELY(mark == NULL)) {
        return 0;
    }
    if (PS_UNLIKELY(kind.is_wide)) {
        ps_store_relaxed(&mark[1], (uint8_t)(number >> 8)); /* relaxed: as below */
    }
    /* relaxed: whoever frees the block was handed it, and with it this mark. */
    ps_store_relaxed(mark, (uint8_t)number);
    return number;
}

/* The number noted last; 0 when there is none. */
static inline size_t ps_record_marked(const void *block, uint32_t class_index) {
    struct ps_record_kind kind = ps_record_kinds[class_index];
    if (PS_LIKELY(kind.number != 0)) {
        return kind.number;
    }
    const uint8_t *mark = ps_shadow_at(block);
    if (PS_UNLIKELY(mark == NULL)) {
        return 0;
    }
    /* relaxed, both: as above. */
    size_t high = PS_UNLIKELY(kind.is_wide) ? ps_load_relaxed(&mark[1]) : 0;
    return ps_load_relaxed(mark) | high << 8;
}

#endif
