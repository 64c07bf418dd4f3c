/* SPDX-License-Identifier: MIT */
/*
 * trim_to of the families that return chunks of freed objects: what it returns, what it retains,
 * and that the retained memory works.
 */
#include "tests/pools/family_rows.h"

static size_t trimmed(const struct row *row, void *pool, size_t keep_bytes) {
    return row->end == sizes_end   ? ps_pools_trim_to(pool, keep_bytes)
           : row->end == slots_end ? ps_slots_trim_to(pool, keep_bytes)
           : row->end == tlsf_end  ? ps_tlsf_trim_to(pool, keep_bytes)
                                   : ps_pool_trim_to(pool, keep_bytes);
}

static void free_all(const struct row *row, void *pool) {
    for (size_t i = 0; i < 2000; i++) {
        if (row->end == sizes_end) {
            ps_pools_free(pool, blocks[i], 64);
        } else if (row->end == slots_end) {
            REQUIRE(ps_slots_remove(pool, handles[i]));
        } else if (row->end == tlsf_end) {
            ps_tlsf_free(pool, blocks[i]);
        } else {
            ps_pool_free(pool, blocks[i]);
        }
    }
}

TEST(trim_retains_as_much_as_it_is_told) {
    NEEDS_CHUNKS();
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        if (strstr(row->name, "reset") != NULL || (row->end != pool_end && row->end != sizes_end &&
                                                   row->end != slots_end && row->end != tlsf_end)) {
            continue;
        }
        struct ps_source_account account;
        ps_source_account_init(&account, NULL, 0);
        struct ps_chunk_options chunks = {.source = &account.source};
        void *pool = row->make(&chunks);
        row->use(pool, 2000);
        free_all(row, pool);
        size_t before = ps_source_account_used(&account);
        CHECK_EQ(trimmed(row, pool, SIZE_MAX), 0);
        CHECK_EQ(ps_source_account_used(&account), before);
        size_t given = trimmed(row, pool, before / 2);
        CHECK_EQ(given, before - ps_source_account_used(&account));
        check_bound(row, "half retained", ps_source_account_used(&account), before / 2 + 65536);
        row->use(pool, 2000); /* what was retained works */
        free_all(row, pool);
        (void)trimmed(row, pool, 0);
        check_bound(row, "none retained", ps_source_account_used(&account), 65536);
        row->end(pool);
        CHECK_EQ(ps_source_account_used(&account), 0);
    }
}

UNIT_MAIN
