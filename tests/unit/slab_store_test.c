// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The store of free blocks alone, with no front before it: each block is out or in, once; batches
 * come from the fullest slabs; fresh blocks come as ranges; drained slabs return.
 */
#include "pools/engine/page/retention.h"
#include "tests/unit/store_blocks.h"

ENGINE_LONG_CLASSES

/* Of few and of many blocks, of one granule and of several, with bitmaps in the slot and apart. */
static const size_t sizes[] = {8, 16, 48, 120, 200, 1000, 3000, 8000, 9000, 20000, 65536};
#define SIZES (sizeof sizes / sizeof sizes[0])

FRESH_TEST(each_block_of_a_slab_is_handed_out_once) {
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        take_many(class_index, 2 * ps_class_capacity(class_index));
        check_out(class_index);
        CHECK_EQ(slabs_of(class_index), 2);
        void *more[PS_STORE_BATCH];
        CHECK_EQ(ps_store_take(class_index, more, PS_STORE_BATCH, NULL, false), 0);
        give_all(class_index);
        CHECK_EQ(used_of(class_index), 0);
    }
    struct ps_census census = engine_census();
    check_census(&census);
}

FRESH_TEST(the_granules_of_a_slab_lead_to_it) {
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        take_many(class_index, ps_class_capacity(class_index));
        for (size_t i = 0; i < out_count; i++) {
            struct ps_slab *slab = ps_slab_of(out[i]);
            bool is_short = slab->run.granules == 1;
            uint32_t tag = ps_page_map_tag(out[i]);
            CHECK_EQ(is_short ? (uint8_t)tag : tag, is_short ? class_index + 1 : 0);
            for (size_t at = 0; at < block_bytes_of(class_index); at += 4096) {
                CHECK_PTR_EQ(ps_slab_holding(ps_page_map_slot(out[i] + at), out[i] + at), slab);
            }
            CHECK_EQ(ps_slab_block(slab, ps_slab_index(slab, out[i])), out[i]);
            CHECK(!ps_slab_has_block(slab, out[i] + 4));
        }
        give_all(class_index);
        ps_store_drop_drained(true);
        CHECK_EQ(ps_page_map_tag(out[0]), 0);
        CHECK(ps_slab_holding(ps_page_map_slot(out[0]), out[0]) == NULL);
    }
}

FRESH_TEST(a_batch_comes_from_the_fullest_slab) {
    uint32_t class_index = class_of(200);
    size_t capacity = ps_class_capacity(class_index);
    take_many(class_index, 3 * capacity);
    qsort(out, out_count, sizeof out[0], compare);
    GIVEN("a slab with few free blocks, and one with many");
    static void *few[10];
    static void *many[200];
    const struct ps_slab *full = ps_slab_of(out[0]);
    memcpy(few, &out[0], sizeof few);
    memcpy(many, &out[capacity], sizeof many);
    for (size_t i = 0; i < 200; i += 20) {
        ps_store_give(class_index, &many[i], 20);
    }
    ps_store_give(class_index, few, 10);
    void *got[PS_STORE_BATCH];
    CHECK_EQ(ps_store_take(class_index, got, 10, NULL, false), 10);
    for (size_t i = 0; i < 10; i++) {
        CHECK_PTR_EQ(ps_slab_of(got[i]), full);
        CHECK_PTR_EQ(got[i], few[i]); /* in order of addresses */
    }
}

FRESH_TEST(a_batch_of_several_slabs_in_any_order_returns) {
    uint32_t class_index = class_of(1000);
    uint64_t state = 5;
    take_many(class_index, 10 * ps_class_capacity(class_index));
    for (size_t i = out_count - 1; i > 0; i--) {
        size_t other = engine_random(&state) % (i + 1);
        char *block = out[i];
        out[i] = out[other];
        out[other] = block;
    }
    uint64_t used = out_count;
    while (out_count > 200) {
        size_t count = 1 + engine_random(&state) % PS_STORE_BATCH;
        give_last(class_index, count);
        used -= count;
        CHECK_EQ(used_of(class_index), used);
    }
    check_out(class_index);
    take_many(class_index, 300);
    check_out(class_index);
    give_all(class_index);
    CHECK_CMP(slabs_of(class_index), <=, 1);
}

/* ---- ranges ---- */

FRESH_TEST(fresh_blocks_come_as_ranges_that_grow_until_the_slab_is_used) {
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        size_t block_bytes = block_bytes_of(class_index);
        size_t taken = 0;
        size_t last = 0;
        char *next = NULL;
        REQUIRE(ps_store_grow(class_index));
        while (taken < ps_class_capacity(class_index)) {
            ps_range range;
            size_t count = take_range(class_index, &range);
            REQUIRE(count > 0);
            CHECK(next == NULL || ps_range_lowest(range) == next);
            CHECK(taken + count == ps_class_capacity(class_index) || count >= last);
            next = ps_range_lowest(range) + count * block_bytes;
            for (size_t i = 0; i < count; i++) {
                out[out_count++] = ps_range_lowest(range) + i * block_bytes;
            }
            taken += count;
            last = count;
        }
        check_out(class_index);
        ps_range none;
        CHECK_EQ(take_range(class_index, &none), 0);
        ps_store_give_range(class_index, out[0], out_count);
        out_count = 0;
        CHECK_EQ(used_of(class_index), 0);
        ps_store_drop_drained(true);
        CHECK_EQ(slabs_of(class_index), 0);
    }
}

FRESH_TEST(freed_blocks_are_used_before_fresh_ones) {
    uint32_t class_index = class_of(48);
    ps_range range;
    REQUIRE(ps_store_grow(class_index));
    CHECK_CMP(take_range(class_index, &range), >, 4);
    void *blocks[PS_STORE_BATCH] = {ps_range_lowest(range), ps_range_lowest(range) + 96};
    const void *first = blocks[0];
    const void *second = blocks[1];
    ps_store_give(class_index, blocks, 2);
    ps_range other;
    CHECK_EQ(ps_store_take(class_index, blocks, 2, &other, false), 2);
    CHECK_EQ(other, 0);
    CHECK(blocks[0] == first && blocks[1] == second);
    CHECK_CMP(take_range(class_index, &other), >, 0);
    CHECK(ps_range_lowest(other) == ps_range_lowest(range) + ps_range_count(range) * 48);
}

FRESH_TEST(ranges_of_any_place_return) {
    uint64_t state = 11;
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        size_t capacity = ps_class_capacity(class_index);
        size_t block_bytes = block_bytes_of(class_index);
        take_many(class_index, capacity);
        check_out(class_index);
        for (size_t first = 0; first < capacity;) {
            size_t count = 1 + engine_random(&state) % ps_min(capacity - first, 200);
            ps_store_give_range(class_index, out[0] + first * block_bytes, count);
            first += count;
            CHECK_EQ(used_of(class_index), capacity - first);
        }
        out_count = 0;
    }
}

/* ---- misuse ---- */

FRESH_TEST(a_block_that_is_free_already_is_reported) {
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        size_t block_bytes = block_bytes_of(class_index);
        take_many(class_index, ps_class_capacity(class_index));
        check_out(class_index);
        void *block = out[out_count / 2];
        ps_store_give(class_index, &block, 1);
        CHECK_ABORTS(ps_store_give(class_index, &block, 1), "poolshim: double free of 0x");
        CHECK_ABORTS(ps_store_give_range(class_index, block, 1), "poolshim: double free of 0x");
        if (out_count > 2) {
            char *before = (char *)block - block_bytes;
            CHECK_ABORTS(ps_store_give_range(class_index, before, 2),
                         "poolshim: double free of 0x");
            void *twice[] = {before, before};
            CHECK_ABORTS(ps_store_give(class_index, twice, 2), "poolshim: double free of 0x");
        }
        out_count = 0;
    }
}

/* ---- drained slabs ---- */

FRESH_TEST(drained_slabs_return_except_one_of_a_class) {
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        take_many(class_index, 5 * ps_class_capacity(class_index));
        CHECK_EQ(slabs_of(class_index), 5);
        give_all(class_index);
        CHECK_EQ(slabs_of(class_index), 1);
        ps_store_drop_drained(false);
        CHECK_EQ(slabs_of(class_index), 1);
        ps_store_drop_drained(true);
        CHECK_EQ(slabs_of(class_index), 0);
    }
    CHECK_EQ(engine_census().small_slab_bytes, 0);
}

FRESH_TEST(while_memory_is_short_no_drained_slab_stays) {
    uint32_t class_index = class_of(100);
    take_many(class_index, 10);
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    give_all(class_index);
    CHECK_EQ(slabs_of(class_index), 0);
    ps_retention_x_pressure = PS_PRESSURE_NONE;
}

FRESH_TEST(a_slab_of_which_a_block_is_used_stays) {
    uint32_t class_index = class_of(20000);
    take_many(class_index, ps_class_capacity(class_index));
    give_last(class_index, out_count - 1);
    ps_store_drop_drained(true);
    CHECK_EQ(slabs_of(class_index), 1);
    check_out(class_index);
    give_all(class_index);
    ps_store_drop_drained(true);
    CHECK_EQ(slabs_of(class_index), 0);
}

/* ---- exhaustion ---- */

FRESH_TEST(without_memory_a_slab_is_not_added_and_nothing_is_lost) {
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = class_of(sizes[s]);
        fake_os_refuse(FAKE_OS_ALL);
        while (ps_store_grow(class_index)) {
        }
        fake_os_refuse(0);
        struct ps_census census = engine_census();
        check_census(&census);
        CHECK_EQ(used_of(class_index), 0);
        ps_store_drop_drained(true);
        CHECK_EQ(slabs_of(class_index), 0);
    }
}

UNIT_MAIN
