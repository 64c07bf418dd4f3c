/* SPDX-License-Identifier: MIT */
/*
 * Memory that a pool has given back has no effect on later chunks: neither 40 rounds of the same
 * use nor a peak before them make the next chunks longer. A row per family, and per way to give
 * memory back.
 *
 * Of a row, after each round's objects are made: bytes from the source <= those of the first round
 * of a new pool, times `times`, which is 2 where the row retains a chunk: reset retains the longest
 * one, and the next is at most as long again.
 */
#include "tests/pools/family_rows.h"

/* Bytes from the source when `count` objects exist. */
static size_t held_in_use(const struct row *row, void *pool, size_t count,
                          const struct ps_source_account *account) {
    row->use(pool, count);
    size_t held = ps_source_account_used(account);
    row->give(pool, count);
    return held;
}

TEST(no_round_of_the_same_use_takes_more_than_the_first) {
    NEEDS_CHUNKS();
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        struct ps_source_account account;
        ps_source_account_init(&account, NULL, 0);
        struct ps_chunk_options chunks = {.source = &account.source};
        static const size_t counts[] = {FEW, 300};
        for (size_t k = 0; k < 2; k++) {
            void *pool = row->make(&chunks);
            size_t first = held_in_use(row, pool, counts[k], &account);
            size_t most = 0;
            for (size_t round = 1; round < ROUNDS; round++) {
                size_t held = held_in_use(row, pool, counts[k], &account);
                most = held > most ? held : most;
            }
            check_bound(row, counts[k] == FEW ? "ten objects" : "300 objects", most,
                        first * row->times);
            row->end(pool);
            CHECK_EQ(ps_source_account_used(&account), 0);
        }
    }
}

/* Memory that reset and the options retain is there on purpose: these rows are left out. The slot
 * map retains its table of chunks, 12 bytes for each. */
TEST(a_peak_that_was_given_back_makes_later_chunks_no_longer) {
    NEEDS_CHUNKS();
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        if (strstr(row->name, ", reset") != NULL && strstr(row->name, "trim") == NULL) {
            continue;
        }
        struct ps_source_account account;
        ps_source_account_init(&account, NULL, 0);
        struct ps_chunk_options chunks = {.source = &account.source};
        void *pool = row->make(&chunks);
        size_t first = held_in_use(row, pool, FEW, &account);
        held_in_use(row, pool, MANY, &account);
        check_bound(row, "after a peak", held_in_use(row, pool, FEW, &account),
                    first * row->times + 4096);
        row->end(pool);
    }
}

TEST(many_small_pools_remain_small) {
    NEEDS_CHUNKS();
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        struct ps_source_account account;
        ps_source_account_init(&account, NULL, 0);
        struct ps_chunk_options chunks = {.source = &account.source};
        void *pools[INSTANCES];
        size_t first = 0;
        for (size_t k = 0; k < INSTANCES; k++) {
            pools[k] = row->make(&chunks);
            for (size_t round = 0; round < ROUNDS; round++) {
                size_t held = held_in_use(row, pools[k], FEW, &account);
                first = first == 0 ? held : first;
            }
            row->use(pools[k], FEW);
        }
        check_bound(row, "100 pools", ps_source_account_used(&account),
                    INSTANCES * first * row->times);
        for (size_t k = 0; k < INSTANCES; k++) {
            row->end(pools[k]);
        }
    }
}

UNIT_MAIN
