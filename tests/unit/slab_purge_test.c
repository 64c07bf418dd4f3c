// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Pages of slabs in which no block is used: they return to the system, and their blocks do not. */
#include "pools/engine/page/retention.h"
#include "tests/unit/store_blocks.h"

#define HOLE_BYTES 200

static size_t slabs = 4;

/* Every hundredth block stays used, the first of which is this one. */
static void leave_holes_from(uint32_t class_index, size_t first) {
    size_t count = slabs * ps_class_capacity(class_index);
    take_many(class_index, count);
    check_out(class_index);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        void *block = out[i];
        memset(block, 0x77, HOLE_BYTES);
        if (i % 100 == first) {
            out[kept++] = block;
        } else {
            ps_store_give(class_index, &block, 1);
        }
    }
    out_count = kept;
}

static void leave_holes(uint32_t class_index) { leave_holes_from(class_index, 0); }

static size_t slab_bytes_without(size_t used_pages) {
    return slabs * (PS_GRANULE_BYTES - used_pages * ps_os_page_bytes());
}

FRESH_TEST(pages_without_a_used_block_are_purged_and_no_other) {
    uint32_t class_index = class_of(HOLE_BYTES);
    leave_holes(class_index);
    uint64_t bytes = ps_store_purge_all();
    CHECK_EQ(fake_os_purged_bytes(), bytes);
    CHECK_CMP(bytes, >,
              slab_bytes_without(8)); /* each slab has 4 used blocks, of 8 pages at most */
    CHECK_CMP(bytes, <, slab_bytes_without(3));
    for (size_t i = 0; i < out_count; i++) {
        CHECK_EQ(out[i][0], 0x77);
        CHECK_EQ(out[i][HOLE_BYTES - 1], 0x77);
    }
    check_out(class_index);
    WHEN("they are purged again");
    CHECK_EQ(ps_store_purge_all(), 0);
    THEN("each block can be used, once");
    take_many(class_index, slabs * ps_class_capacity(class_index) - out_count);
    check_out(class_index);
    CHECK_EQ(slabs_of(class_index), slabs);
}

FRESH_TEST(the_first_pages_of_a_slab_are_a_range_once_purged) {
    uint32_t class_index = class_of(HOLE_BYTES);
    leave_holes_from(class_index, 50);
    CHECK_CMP(ps_store_purge_all(), >, 0);
    ps_range range;
    size_t count = take_range(class_index, &range);
    REQUIRE(count > 0);
    const struct ps_slab *slab = ps_slab_of(ps_range_lowest(range));
    CHECK_EQ(ps_slab_index(slab, ps_range_lowest(range)), ps_slab_class(slab)->first);
    for (size_t i = 0; i < count; i++) {
        out[out_count] = ps_range_lowest(range) + i * block_bytes_of(class_index);
        CHECK(engine_is_zero((unsigned char *)out[out_count++], HOLE_BYTES));
    }
    check_out(class_index);
    WHEN("all other blocks are used, too");
    take_many(class_index, slabs * ps_class_capacity(class_index) - out_count);
    check_out(class_index);
}

/* Ticks for so long; the slab changes before each, or does not. Returns the bytes. */
static uint64_t pass_time(uint32_t class_index, uint64_t ms, bool is_changing) {
    uint64_t bytes = 0;
    for (uint64_t passed = 0; passed < ms; passed += 10) {
        fake_os_advance_ms(10);
        if (is_changing) {
            give_last(class_index, 1);
            take_many(class_index, 1);
        }
        (void)ps_store_purge_tick(ps_os_now_ms(), false, &bytes);
    }
    return bytes;
}

FRESH_TEST(a_slab_that_changes_is_not_purged_until_a_delay_has_passed) {
    uint32_t class_index = class_of(HOLE_BYTES);
    uint64_t delay_ms = ps_retention_delay_ms();
    slabs = 1;
    leave_holes(class_index);
    CHECK_EQ(pass_time(class_index, 3 * delay_ms, true), 0);
    CHECK_EQ(pass_time(class_index, delay_ms / 2, false), 0);
    CHECK_CMP(pass_time(class_index, delay_ms * 3 / 2, false), >, slab_bytes_without(8));
    check_out(class_index);
}

/* As many freed blocks remain as the reserved page has fresh ones. */
FRESH_TEST(no_block_of_a_reserved_page_is_in_a_range) {
    uint32_t class_index = class_of(768);
    char *base = NULL;
    REQUIRE(ps_store_grow(class_index));
    while (out_count < 15) { /* 3840 bytes, and then twice as many */
        ps_range range;
        size_t count = take_range(class_index, &range);
        base = base != NULL ? base : ps_range_lowest(range);
        for (size_t i = 0; i < count; i++) {
            out[out_count++] = ps_range_lowest(range) + i * 768;
        }
    }
    REQUIRE(out_count == 15);
    ps_store_give_range(class_index, base, 1);
    ps_store_give_range(class_index, base + (size_t)10 * 768, 5); /* the third page */
    struct ps_slab *slab = ps_slab_of(base);
    uint16_t pages = ps_store_reserve_pages(slab, 0);
    CHECK_EQ(pages, 1 << 2);
    void *block;
    ps_range range = 16;
    if (ps_store_take(class_index, &block, 1, &range, false) == 0) {
        block = ps_range_lowest(range);
        CHECK_EQ(ps_range_count(range), 1);
    }
    CHECK_PTR_EQ(block, base);
    ps_store_return_pages(slab, pages, false);
    out_count = 10;
    take_many(class_index, 6);
    check_out(class_index);
}

FRESH_TEST(a_purge_that_the_system_refuses_loses_nothing) {
    uint32_t class_index = class_of(HOLE_BYTES);
    leave_holes(class_index);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK_EQ(ps_store_purge_all(), 0);
    fake_os_refuse(0);
    check_out(class_index);
    CHECK_CMP(ps_store_purge_all(), >, 0);
    take_many(class_index, slabs * ps_class_capacity(class_index) - out_count);
    check_out(class_index);
    give_all(class_index);
    ps_store_drop_drained(true);
    CHECK_EQ(slabs_of(class_index), 0);
}

FRESH_TEST(the_pages_of_no_class_are_purged_with_used_blocks) {
    uint64_t state = 3;
    for (size_t bytes = 8; bytes <= 8192; bytes += bytes / 3 + 1) {
        uint32_t class_index = class_of(bytes);
        take_many(class_index, 2 * ps_class_capacity(class_index));
        check_out(class_index);
        size_t kept = 0;
        for (size_t i = 0; i < out_count; i++) {
            void *block = out[i];
            memset(block, 0x55, bytes);
            if (engine_random(&state) % 64 == 0) {
                out[kept++] = block;
            } else {
                ps_store_give(class_index, &block, 1);
            }
        }
        out_count = kept;
        (void)ps_store_purge_all();
        for (size_t i = 0; i < out_count; i++) {
            CHECK(out[i][0] == 0x55 && out[i][bytes - 1] == 0x55);
        }
        check_out(class_index);
        give_all(class_index);
        ps_store_drop_drained(true);
    }
}

UNIT_MAIN
