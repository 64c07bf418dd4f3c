/* SPDX-License-Identifier: MIT */
/*
 * See hard_marks.h. One table for each gigabyte that has small blocks, as the page map has leaves:
 * 64 MiB of addresses, of which a page is touched for each slice.
 */
#include "pools/heap/hard_marks.h"

#include "pools/base/compiler.h"
#include "pools/os/os.h"
#include "pools/page/metadata.h"
#include "pools/page/page_map.h"

#define MARK_SHIFT 4 /* a mark for so many bytes: 16 */
#define TABLE_BYTES (((size_t)1 << PS_LEAF_SHIFT) >> MARK_SHIFT)

static uint8_t *x_tables[PS_ROOT_COUNT];

static size_t table_of(const void *block) {
    return ((uintptr_t)block >> PS_LEAF_SHIFT) & (PS_ROOT_COUNT - 1);
}

static size_t index_of(const void *block) {
    return ((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >> MARK_SHIFT;
}

static PS_COLD uint8_t *make_table(const void *block) {
    uint8_t *table = ps_metadata_map(TABLE_BYTES);
    uint8_t *other = NULL;
    /* release: pairs with the acquire below; the mapping is there. What a thread that comes second
     * has mapped stays unused, untouched: once in the life of a gigabyte. */
    if (table != NULL && !ps_cas_strong_acq_rel(&x_tables[table_of(block)], &other, table)) {
        return other;
    }
    return table;
}

bool ps_hard_mark(const void *block) {
    uint8_t *table = ps_load_acquire(&x_tables[table_of(block)]); /* acquire: see make_table */
    if (PS_UNLIKELY(table == NULL)) {
        table = make_table(block);
    }
    if (PS_UNLIKELY(table == NULL)) {
        return false;
    }
    /* relaxed: whoever frees the block was handed it, and with it this mark. */
    ps_store_relaxed(&table[index_of(block)], (uint8_t)1);
    return true;
}

bool ps_hard_is_marked(const void *block) {
    const uint8_t *table =
        ps_load_acquire(&x_tables[table_of(block)]); /* acquire: see make_table */
    return table != NULL && ps_load_relaxed(&table[index_of(block)]) != 0; /* relaxed: as above */
}

bool ps_hard_unmark(const void *block) {
    uint8_t *table = ps_load_acquire(&x_tables[table_of(block)]); /* acquire: see make_table */
    if (PS_UNLIKELY(table == NULL || ps_load_relaxed(&table[index_of(block)]) == 0)) {
        return false; /* relaxed: as in ps_hard_mark */
    }
    ps_store_relaxed(&table[index_of(block)], (uint8_t)0); /* relaxed: as in ps_hard_mark */
    return true;
}
