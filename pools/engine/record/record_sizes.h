/* SPDX-License-Identifier: MIT */
/*
 * Requested sizes of blocks while the program is recorded, as numbers (record.h). Many classes
 * serve one size only, among them the built-in ones up to 128 bytes, and need no storage. Otherwise
 * the number is stored in the shadow byte of the block (shadow.h); a block of a class above 4064
 * bytes uses two of its shadow bytes. Memory: one page per granule with such blocks, at most 6 %.
 * Callers: record.c. Any thread that owns the block. No locks.
 */
#ifndef PS_RECORD_RECORD_SIZES_H
#define PS_RECORD_RECORD_SIZES_H

#include "pools/engine/base/config.h"
#include "pools/engine/front/shadow.h"

#include <stddef.h>
#include <stdint.h>

/* Per class. */
struct ps_record_kind {
    uint8_t number;  /* of the only size it serves; 0: it serves several */
    uint8_t is_wide; /* it serves several sizes whose numbers exceed a byte */
};

extern PS_HIDDEN struct ps_record_kind ps_record_kinds[PS_CLASS_LIMIT];

/* Called once, after the size classes. */
void ps_record_sizes_start(void);

/*
 * Stores the number of a block's requested size, if its class serves several. Returns the number; 0
 * when memory is exhausted.
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
    /* relaxed: the freeing thread received the block, and this byte with it. */
    ps_store_relaxed(mark, (uint8_t)number);
    return number;
}

/* The number stored last; 0 when there is none. */
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
