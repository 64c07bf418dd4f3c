/* SPDX-License-Identifier: MIT */
/* Size classes: the built-in table, tables of the user's, and both look-up tables, exhaustively. */
#include "pools/engine/small/size_class.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/page_map.h"
#include "tests/unit/unit.h"

#define TABLE_ROUNDS 400
#define NEVER UINT32_MAX

static void start_with(const uint32_t *class_bytes, uint32_t count, size_t small_max_bytes) {
    struct ps_config config = PS_CONFIG_DEFAULT;
    for (uint32_t i = 0; i < count; i++) {
        config.class_bytes[i] = class_bytes[i];
    }
    config.class_count = count;
    config.small_max_bytes = small_max_bytes;
    REQUIRE(ps_size_class_is_valid(config.class_bytes, count));
    ps_size_class_start(&config);
}

static void start_built_in(void) { start_with(NULL, 0, PS_CLASS_BYTES_LIMIT); }

static size_t block_bytes(uint32_t class_index) { return ps_size_classes[class_index].block_bytes; }

/* The plainest look-up: the first class that is large enough and a multiple of align. */
static uint32_t smallest_class(size_t bytes, size_t align) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        if (block_bytes(i) >= bytes && block_bytes(i) % align == 0) {
            return i;
        }
    }
    return PS_CLASS_NONE;
}

static void check_lookup(void) {
    for (size_t bytes = 0; bytes <= PS_CLASS_BYTES_LIMIT; bytes++) {
        uint32_t found = ps_size_class_of(bytes);
        bool is_smallest =
            found == PS_CLASS_NONE
                ? bytes > ps_size_class_max_bytes
                : block_bytes(found) >= bytes && (found == 0 || block_bytes(found - 1) < bytes);
        CHECK(is_smallest);
    }
}

static void check_aligned_lookup(void) {
    for (size_t align = 1; align <= (size_t)1 << 20; align *= 2) {
        for (uint32_t i = 0; i < ps_size_class_count; i++) {
            for (size_t bytes = block_bytes(i) - 1; bytes <= block_bytes(i) + 1; bytes++) {
                uint32_t wanted =
                    align > PS_GRANULE_BYTES ? PS_CLASS_NONE : smallest_class(bytes, align);
                CHECK_EQ(ps_size_class_of_aligned(bytes, align), wanted);
            }
        }
    }
    CHECK_EQ(ps_size_class_of_aligned(SIZE_MAX, 1), PS_CLASS_NONE);
    CHECK_EQ(ps_size_class_of_aligned(1, (size_t)1 << 63), PS_CLASS_NONE);
}

/* What slabs and fronts rely on, for every class of the table. */
static void check_plans(void) {
    CHECK_CMP(ps_size_class_count, <=, PS_CLASS_LIMIT);
    CHECK_EQ(ps_size_class_max_bytes, block_bytes(ps_size_class_count - 1));
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        const struct ps_size_class *class = &ps_size_classes[i];
        size_t bytes = (size_t) class->granules * PS_GRANULE_BYTES;
        CHECK(i == 0 || block_bytes(i) > block_bytes(i - 1));
        CHECK(class->granules >= 1 && class->granules <= 16);
        CHECK_CMP((size_t) class->limit * class->block_bytes, <=, bytes);
        CHECK_CMP(class->limit, >=, class->first + 2);
        CHECK_CMP((class->limit - class->first) * (size_t) class->block_bytes * 10, >=, bytes * 7);
    }
}

/* One step beyond a slab's first and last block lies in its own granules and in no block: a free
 * streak that has come there can meet neither a neighbour's block nor one of its own. */
static void check_streak_edges(void) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        const struct ps_size_class *class = &ps_size_classes[i];
        if (class->has_streaks) {
            CHECK_CMP(class->first, >=, 1);
            CHECK_CMP((size_t) class->limit * class->block_bytes, <,
                      (size_t) class->granules * PS_GRANULE_BYTES);
        }
    }
}

TEST(the_built_in_table_ascends_and_rounds_by_at_most_a_quarter) {
    start_built_in();
    check_plans();
    CHECK_EQ(ps_size_class_max_bytes, PS_CLASS_BYTES_LIMIT);
    for (size_t bytes = 1; bytes <= PS_CLASS_BYTES_LIMIT; bytes++) {
        size_t rounding = block_bytes(ps_size_class_of(bytes)) - bytes;
        CHECK_CMP(rounding, <, ps_max(16, bytes / 4 + 1));
    }
}

TEST(unless_told_otherwise_it_ends_where_medium_blocks_begin) {
    start_with(NULL, 0, 0);
    CHECK_CMP(ps_size_class_max_bytes, <, PS_CLASS_BYTES_LIMIT);
    struct ps_config hardened = PS_CONFIG_DEFAULT;
    hardened.harden = 1; /* there are no medium blocks */
    ps_size_class_start(&hardened);
    CHECK_EQ(ps_size_class_max_bytes, PS_CLASS_BYTES_LIMIT);
}

TEST(every_size_maps_to_the_smallest_class_that_fits) {
    start_built_in();
    check_lookup();
}

TEST(every_alignment_finds_the_smallest_class_of_multiples) {
    start_built_in();
    check_aligned_lookup();
}

TEST(small_classes_have_streaks_that_cannot_leave_their_slab) {
    start_built_in();
    check_streak_edges();
    CHECK(ps_size_classes[ps_size_class_of(8)].has_streaks);
    CHECK(ps_size_classes[ps_size_class_of(256)].has_streaks);
    CHECK(!ps_size_classes[ps_size_class_of(257)].has_streaks);
}

TEST(the_built_in_sizes_go_on_above_a_table_of_the_users) {
    const uint32_t table[] = {24 + 8, 208};
    start_with(table, 2, PS_CLASS_BYTES_LIMIT);
    CHECK_EQ(block_bytes(0), 32);
    CHECK_EQ(block_bytes(1), 208);
    CHECK_EQ(block_bytes(2), 224);
    CHECK_EQ(block_bytes(3), 256);
    CHECK_EQ(ps_size_class_max_bytes, PS_CLASS_BYTES_LIMIT);
    check_lookup();
}

TEST(small_max_at_the_last_entry_ends_the_table_there) {
    const uint32_t table[] = {16, 208};
    start_with(table, 2, 208);
    CHECK_EQ(ps_size_class_count, 2);
    CHECK_EQ(ps_size_class_of(208), 1);
    CHECK_EQ(ps_size_class_of(209), PS_CLASS_NONE);
    CHECK_EQ(ps_size_class_of(1024), PS_CLASS_NONE);
    CHECK_EQ(ps_size_class_of(PS_CLASS_BYTES_LIMIT), PS_CLASS_NONE);
    check_lookup();
    check_aligned_lookup();
}

TEST(a_table_of_the_single_entry_8_works) {
    const uint32_t table[] = {8};
    start_with(table, 1, 8);
    CHECK_EQ(ps_size_class_count, 1);
    check_lookup();
    check_plans();
    check_streak_edges();
    CHECK_EQ(ps_size_class_of_aligned(8, 8), 0);
    CHECK_EQ(ps_size_class_of_aligned(8, 16), PS_CLASS_NONE);
}

TEST(a_full_table_has_no_tail) {
    uint32_t table[PS_CLASS_LIMIT];
    for (uint32_t i = 0; i < PS_CLASS_LIMIT; i++) {
        table[i] = 16 * (i + 1);
    }
    start_with(table, PS_CLASS_LIMIT, 0);
    CHECK_EQ(ps_size_class_count, PS_CLASS_LIMIT);
    CHECK_EQ(ps_size_class_max_bytes, 16 * PS_CLASS_LIMIT);
    check_lookup();
}

TEST(a_table_with_one_place_left_gets_the_largest_size_only) {
    uint32_t table[PS_CLASS_LIMIT];
    for (uint32_t i = 0; i < PS_CLASS_LIMIT; i++) {
        table[i] = 16 * (i + 1);
    }
    for (size_t small_max = 1024; small_max <= PS_CLASS_BYTES_LIMIT; small_max += 512) {
        start_with(table, PS_CLASS_LIMIT - 1, small_max);
        CHECK_EQ(ps_size_class_count, PS_CLASS_LIMIT);
        CHECK_CMP(ps_size_class_max_bytes, <=, small_max);
        CHECK_CMP(ps_size_class_max_bytes * 5, >, small_max * 4); /* no larger one would fit */
    }
}

/* Ascending multiples of 16, dense or sparse, sometimes after 8. */
static uint32_t random_table(uint32_t *table) {
    uint32_t wanted = 1 + (uint32_t)(unit_random() % PS_CLASS_LIMIT);
    uint32_t step_max = 1 + (uint32_t)(unit_random() % 64);
    uint32_t count = 0;
    uint32_t bytes = 0;
    if (unit_random() % 2 == 0) {
        table[count++] = 8;
    }
    while (count < wanted) {
        bytes += 16 * (1 + (uint32_t)(unit_random() % step_max));
        if (bytes > PS_CLASS_BYTES_LIMIT) {
            break;
        }
        table[count++] = bytes;
    }
    return count;
}

TEST(any_valid_table_is_taken_whole_and_goes_on_as_far_as_it_can) {
    start_with(NULL, 0, 0);
    size_t built_in = ps_size_class_max_bytes;
    for (int round = 0; round < TABLE_ROUNDS; round++) {
        uint32_t table[PS_CLASS_LIMIT];
        uint32_t count = random_table(table);
        uint32_t last = table[count - 1];
        size_t small_max = unit_random() % 2 == 0 ? 0 : last + unit_random() % (65537 - last);
        start_with(table, count, small_max);
        for (uint32_t i = 0; i < count; i++) {
            CHECK_EQ(block_bytes(i), table[i]);
        }
        size_t top = small_max != 0 ? small_max : built_in;
        CHECK_CMP(ps_size_class_max_bytes, <=, ps_max(top, last));
        if (small_max == 0 && count < PS_CLASS_LIMIT) {
            CHECK_EQ(ps_size_class_max_bytes, ps_max(last, built_in));
        }
        check_plans();
        check_streak_edges();
        if (round % 20 == 0) {
            check_lookup();
            check_aligned_lookup();
        }
    }
}

TEST(wrong_tables_are_refused) {
    const uint32_t wrong[][3] = {{0, 16, 32}, {16, 16, 32}, {32, 16, 48},   {16, 24, 32},
                                 {16, 8, 32}, {8, 8, 16},   {16, 200, 0},   {16, 32, 65552},
                                 {1, 16, 32}, {12, 16, 32}, {16, 32, NEVER}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(!ps_size_class_is_valid(wrong[i], 3));
    }
    uint32_t long_table[PS_CLASS_LIMIT + 1];
    for (uint32_t i = 0; i <= PS_CLASS_LIMIT; i++) {
        long_table[i] = 16 * (i + 1);
    }
    CHECK(!ps_size_class_is_valid(long_table, PS_CLASS_LIMIT + 1));
    CHECK(ps_size_class_is_valid(long_table, PS_CLASS_LIMIT));
}

/* Any size that slabs of one granule may have, any offset within it. */
TEST(one_product_tells_the_index_of_a_block_and_that_there_is_none) {
    for (uint32_t bytes = 8; bytes <= PS_CLASS_BYTES_LIMIT;
         bytes = (uint32_t)ps_round_up(bytes + 8, 16)) {
        start_with(&bytes, 1, bytes);
        if (ps_size_classes[0].granules != 1) {
            CHECK_EQ(ps_size_classes[0].factor, 0);
            continue;
        }
        uint32_t blocks = (uint32_t)(PS_GRANULE_BYTES / bytes);
        size_t wrong = 0;
        for (uintptr_t offset = 0; offset < PS_GRANULE_BYTES; offset++) {
            uint32_t scaled = ps_size_class_scaled(&ps_size_classes[0],
                                                   (const void *)(PS_GRANULE_BYTES + offset));
            wrong += offset % bytes == 0 ? scaled != offset / bytes << PS_SCALED_SHIFT
                                         : scaled <= blocks << PS_SCALED_SHIFT;
        }
        CHECK_EQ(wrong, 0);
    }
}

UNIT_MAIN
