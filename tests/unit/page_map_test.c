// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The page map: a result for any address, and slots that never move. */
#include "pools/engine/page/page_map.h"

#include "pools/engine/page/metadata.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#define GIB ((uintptr_t)1 << 30)
/* No memory lies there; the map needs none. */
#define COVERED_BASE (0x5c * GIB - 3 * PS_GRANULE_BYTES)
/* Touches 34 leaves and, below, two branches. */
#define COVERED_BYTES (GIB + 6 * PS_GRANULE_BYTES)
#define LEAF_RANGE ((uintptr_t)1 << PS_LEAF_SHIFT)

static const void *at(uintptr_t address) { return (const void *)address; }

/* The slot says that nothing of ours is there. */
static bool is_foreign(uintptr_t address) {
    const struct ps_slot *slot = ps_page_map_slot(at(address));
    static const struct ps_slot zero;
    return memcmp(slot, &zero, sizeof zero) == 0;
}

FRESH_TEST(any_address_answers_before_anything_is_covered) {
    static const char text[] = "read-only";
    int local = 0;
    const uintptr_t addresses[] = {0,
                                   1,
                                   UINTPTR_MAX,
                                   (uintptr_t)text,
                                   (uintptr_t)&local,
                                   (uintptr_t)&ps_page_map_slot,
                                   ((uintptr_t)1 << 47) - 1,
                                   (uintptr_t)1 << 47,
                                   ((uintptr_t)1 << PS_ADDRESS_BITS) - 1,
                                   (uintptr_t)1 << PS_ADDRESS_BITS,
                                   0xffff800000000000u,
                                   0xffffffff81000000u,
                                   0xdead00000000beb0u};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        CHECK(is_foreign(addresses[i]));
    }
    for (int round = 0; round < 20000; round++) {
        CHECK(is_foreign(unit_random() >> (unit_random() % 64)));
    }
}

FRESH_TEST(covered_granules_have_slots_of_their_own_that_stay) {
    GIVEN("a covered range that begins and ends in the middle of a leaf");
    REQUIRE(ps_page_map_cover(at(COVERED_BASE), COVERED_BYTES));
    size_t granules = COVERED_BYTES >> PS_GRANULE_SHIFT;
    WHEN("every slot is written");
    for (size_t i = 0; i < granules; i++) {
        struct ps_slot *slot = ps_page_map_slot(at(COVERED_BASE + i * PS_GRANULE_BYTES));
        CHECK(((uintptr_t)slot & (PS_SLOT_BYTES - 1)) == 0);
        slot->run.granules = (uint32_t)i + 1;
    }
    THEN("any address of a granule finds it, also after more was covered");
    CHECK(ps_page_map_cover(at(COVERED_BASE), COVERED_BYTES));
    CHECK(ps_page_map_cover(at(0x100 * GIB), GIB));
    for (size_t i = 0; i < granules; i++) {
        uintptr_t base = COVERED_BASE + i * PS_GRANULE_BYTES;
        uintptr_t inside = base + unit_random() % PS_GRANULE_BYTES;
        CHECK_EQ(ps_page_map_slot(at(base))->run.granules, i + 1);
        CHECK_EQ(ps_page_map_slot(at(inside))->run.granules, i + 1);
        CHECK_EQ(ps_page_map_slot(at(base + PS_GRANULE_BYTES - 1))->run.granules, i + 1);
    }
}

FRESH_TEST(addresses_beside_a_covered_range_stay_foreign) {
    REQUIRE(ps_page_map_cover(at(COVERED_BASE), COVERED_BYTES));
    for (size_t i = 0; i < COVERED_BYTES >> PS_GRANULE_SHIFT; i++) {
        ps_page_map_slot(at(COVERED_BASE + i * PS_GRANULE_BYTES))->run.kind = PS_RUN_BLOCK;
    }
    CHECK(is_foreign(COVERED_BASE - 1));
    CHECK(is_foreign(COVERED_BASE + COVERED_BYTES));
    CHECK(is_foreign(0));
    for (int round = 0; round < 20000; round++) {
        uintptr_t address = unit_random() % ((uintptr_t)1 << PS_ADDRESS_BITS);
        bool is_covered = address - COVERED_BASE < COVERED_BYTES;
        CHECK(is_covered != is_foreign(address));
    }
}

FRESH_TEST(addresses_beyond_the_last_root_are_refused) {
    uintptr_t end = (uintptr_t)1 << PS_ADDRESS_BITS;
    CHECK(!ps_page_map_cover(at(end), PS_GRANULE_BYTES));
    CHECK(!ps_page_map_cover(at(end - PS_GRANULE_BYTES), 2 * PS_GRANULE_BYTES));
    CHECK_EQ(fake_os_calls(FAKE_OS_RESERVE), 0);
    CHECK(ps_page_map_cover(at(end - PS_GRANULE_BYTES), PS_GRANULE_BYTES));
}

FRESH_TEST(leaves_made_before_memory_ran_out_are_found_again) {
    GIVEN("a range over 34 leaves, the first of them mapped, and half a piece of metadata");
    REQUIRE(ps_page_map_cover(at(COVERED_BASE), PS_GRANULE_BYTES));
    REQUIRE(ps_page_map_cover(at(0x100 * GIB), PS_GRANULE_BYTES));
    WHEN("only the rest of the first piece is available");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    CHECK(!ps_page_map_cover(at(COVERED_BASE), COVERED_BYTES));
    struct ps_slot *first = ps_page_map_slot(at(COVERED_BASE));
    first->run.kind = PS_RUN_BUSY;
    struct ps_slot *second = ps_page_map_slot(at(COVERED_BASE + 3 * PS_GRANULE_BYTES));
    second->run.kind = PS_RUN_BUSY;
    CHECK(is_foreign(COVERED_BASE + 3 * PS_GRANULE_BYTES + 2 * LEAF_RANGE));
    THEN("a second try makes those that are missing, together");
    fake_os_refuse(0);
    uint64_t calls = fake_os_calls(FAKE_OS_RESERVE);
    CHECK(ps_page_map_cover(at(COVERED_BASE), COVERED_BYTES));
    CHECK_EQ(fake_os_calls(FAKE_OS_RESERVE), calls + 1);
    CHECK_PTR_EQ(ps_page_map_slot(at(COVERED_BASE)), first);
    CHECK_EQ(first->run.kind, PS_RUN_BUSY);
    CHECK_PTR_EQ(ps_page_map_slot(at(COVERED_BASE + 3 * PS_GRANULE_BYTES)), second);
    CHECK_EQ(second->run.kind, PS_RUN_BUSY);
    CHECK_EQ(fake_os_mapped_bytes(), ps_metadata_x_bytes);
}

/* Half of this is at no place that a sanitizer needs. */
#define HIGH (0x18000 * GIB)

/* Slots in one array, which says that they are in the window. */
static bool is_one_array(uintptr_t base, size_t granules) {
    const struct ps_slot *first = ps_page_map_slot(at(base));
    for (size_t i = 1; i < granules; i++) {
        if (ps_page_map_slot(at(base + i * PS_GRANULE_BYTES)) != first + i) {
            return false;
        }
    }
    return true;
}

/* Where addresses cannot be chosen there are leaves alone. */
static bool can_grow(void) {
    return ps_os_reserve_at((char *)(HIGH - LEAF_RANGE), ps_os_page_bytes());
}

FRESH_TEST(slots_are_one_array_as_the_covered_addresses_go_down) {
    if (!can_grow()) {
        return;
    }
    REQUIRE(ps_page_map_cover(at(HIGH - PS_GRANULE_BYTES), PS_GRANULE_BYTES));
    struct ps_slot *first = ps_page_map_slot(at(HIGH - 1));
    WHEN("ranges are covered below, other mappings between them");
    REQUIRE(ps_page_map_cover(at(HIGH - GIB), GIB / 2));
    REQUIRE(ps_page_map_cover(at(HIGH - 4 * GIB), GIB));
    CHECK_EQ(ps_page_map.x_root[(HIGH - 4 * GIB) >> PS_BRANCH_SHIFT], 0);
    CHECK_PTR_EQ(ps_page_map_slot(at(HIGH - 1)), first);
    CHECK(is_one_array(HIGH - 4 * GIB, 4 * GIB / PS_GRANULE_BYTES));
    CHECK(is_foreign(HIGH - 4 * GIB - 1));
    CHECK(is_foreign(HIGH));
}

FRESH_TEST(a_range_far_below_has_leaves_and_slots_stay_where_they_are) {
    REQUIRE(ps_page_map_cover(at(HIGH - PS_GRANULE_BYTES), PS_GRANULE_BYTES));
    REQUIRE(ps_page_map_cover(at(HIGH - 128 * GIB), PS_GRANULE_BYTES));
    struct ps_slot *far = ps_page_map_slot(at(HIGH - 128 * GIB));
    CHECK(!is_one_array(HIGH - 128 * GIB, 2 * PS_LEAF_SLOTS));
    WHEN("the window reaches there, range by range");
    for (uintptr_t below = 7; below < 135; below += 7) {
        REQUIRE(ps_page_map_cover(at(HIGH - below * GIB), PS_GRANULE_BYTES));
    }
    CHECK_PTR_EQ(ps_page_map_slot(at(HIGH - 128 * GIB)), far);
    CHECK(ps_page_map_slot(at(HIGH - 133 * GIB)) != ps_page_map_slot(at(HIGH - 134 * GIB)));
}

FRESH_TEST(where_something_is_beside_the_slots_there_are_leaves) {
    if (!can_grow()) {
        return;
    }
    REQUIRE(ps_page_map_cover(at(HIGH - PS_GRANULE_BYTES), PS_GRANULE_BYTES));
    char *beside = (char *)ps_page_map_slot(at(HIGH - 3 * LEAF_RANGE)) - ps_os_page_bytes();
    REQUIRE(ps_os_reserve_at(beside, ps_os_page_bytes()));
    CHECK(!ps_os_reserve_at(beside, ps_os_page_bytes()));
    REQUIRE(ps_page_map_cover(at(HIGH - GIB), GIB / 2));
    CHECK(!is_one_array(HIGH - GIB, PS_LEAF_SLOTS * 32));
    CHECK(is_one_array(HIGH - GIB, PS_LEAF_SLOTS));
    for (uintptr_t offset = 0; offset < GIB / 2; offset += PS_GRANULE_BYTES) {
        ps_page_map_slot(at(HIGH - GIB + offset))->run.granules = (uint32_t)(offset >> 16) + 1;
    }
    for (uintptr_t offset = 0; offset < GIB / 2; offset += PS_GRANULE_BYTES) {
        CHECK_EQ(ps_page_map_slot(at(HIGH - GIB + offset))->run.granules, (offset >> 16) + 1);
    }
    CHECK_EQ(*beside, 0);
}

FRESH_TEST(leaves_are_made_one_by_one_where_they_cannot_be_had_together) {
    fake_os_limit_reserve(PS_LEAF_BYTES);
    CHECK(ps_page_map_cover(at(COVERED_BASE), COVERED_BYTES));
    for (uintptr_t offset = 0; offset < COVERED_BYTES; offset += PS_GRANULE_BYTES) {
        ps_page_map_slot(at(COVERED_BASE + offset))->run.granules = (uint32_t)(offset >> 16) + 1;
    }
    for (uintptr_t offset = 0; offset < COVERED_BYTES; offset += PS_GRANULE_BYTES) {
        CHECK_EQ(ps_page_map_slot(at(COVERED_BASE + offset))->run.granules, (offset >> 16) + 1);
    }
    CHECK(is_foreign(COVERED_BASE - 1));
    CHECK_CMP(fake_os_mapped_bytes(), <=, 36 * PS_LEAF_BYTES);
}

FRESH_TEST(a_granule_needs_less_than_128_KiB_of_tables) {
    fake_os_limit_reserve(PS_LEAF_BYTES);
    CHECK(ps_page_map_cover(at(COVERED_BASE), PS_GRANULE_BYTES));
    CHECK_CMP(fake_os_mapped_bytes(), <, 128 << 10);
    CHECK_CMP(sizeof ps_page_map, <, 768 << 10); /* and there are so many before the first */
}

UNIT_MAIN
