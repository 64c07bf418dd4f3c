/* SPDX-License-Identifier: MIT */
/*
 * Slot maps in C: handles and their generations, holes and their order, limits.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/named_slots.h"
#include "tests/pools/respawn.h"

#include <errno.h>

TEST(a_handle_leads_to_its_object_until_it_is_removed) {
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, NULL));
    uint64_t first = insert_named(&slots, 1);
    uint64_t second = insert_named(&slots, 2);
    CHECK(first != 0 && second != 0 && first != second);
    CHECK_EQ(name_behind(&slots, first), 1);
    CHECK_EQ(name_behind(&slots, second), 2);
    CHECK(ps_slots_get(&slots, 0) == NULL);
    CHECK(ps_slots_get(&slots, UINT64_MAX) == NULL);
    errno = 7;
    CHECK(ps_slots_remove(&slots, first));
    CHECK(!ps_slots_remove(&slots, first));
    CHECK(!ps_slots_remove(&slots, 0));
    CHECK(!ps_slots_remove(&slots, UINT64_MAX));
    CHECK_EQ(errno, 7);
    CHECK(ps_slots_get(&slots, first) == NULL);
    WHEN("the place is used again");
    uint64_t third = insert_named(&slots, 3);
    CHECK_EQ(third & UINT32_MAX, first & UINT32_MAX);
    CHECK(third != first);
    CHECK(ps_slots_get(&slots, first) == NULL);
    CHECK_EQ(name_behind(&slots, third), 3);
    CHECK_EQ(slots.live_count, 2);
    CHECK(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
}

TEST(a_handle_of_the_next_generation_is_none_before_its_insert) {
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, 8, 0, NULL));
    void *object = NULL;
    uint64_t handle = ps_slots_insert(&slots, &object);
    uint64_t next = handle + ((uint64_t)1 << 32);
    CHECK(ps_slots_remove(&slots, handle));
    CHECK(ps_slots_get(&slots, next) == NULL);
    CHECK(!ps_slots_remove(&slots, next));
    CHECK_EQ(ps_slots_insert(&slots, &object), next);
    ps_slots_destroy(&slots);
}

TEST(arguments_out_of_range_are_refused) {
    struct ps_slots slots;
    static const struct ps_slots_options bad[] = {
        {.handle_bits = 48},
        {.handle_bits = 32, .position_bits = 31},
        {.handle_bits = 32, .position_bits = 3},
        {.position_bits = 33},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        CHECK(!ps_slots_init(&slots, 8, 0, &bad[i]));
        CHECK_EQ(errno, EINVAL);
    }
    CHECK(!ps_slots_init(&slots, 8, 24, NULL));
    CHECK(!ps_slots_init(&slots, 8, 8192, NULL));
    CHECK(!ps_slots_init(&slots, SIZE_MAX, 0, NULL));
    CHECK_EQ(errno, EINVAL);
}

TEST(objects_are_aligned_and_apart) {
    static const size_t sizes[] = {0, 1, 3, 8, 16, 24, 100, 4096, 70000};
    for (size_t i = 0; i < 9; i++) {
        for (size_t align = 1; align <= PS_SLOTS_ALIGN_MAX; align *= 8) {
            struct ps_slots slots;
            REQUIRE(ps_slots_init(&slots, sizes[i], align, NULL));
            unsigned char *objects[40];
            for (size_t n = 0; n < 40; n++) {
                REQUIRE(ps_slots_insert(&slots, (void **)&objects[n]) != 0);
                CHECK_EQ((uintptr_t)objects[n] % align, 0);
                memset(objects[n], (int)n, sizes[i]);
            }
            for (size_t n = 0; n < 40; n++) {
                for (size_t at = 0; at < sizes[i]; at += 7) {
                    CHECK_EQ(objects[n][at], n);
                }
            }
            CHECK(ps_slots_check(&slots));
            ps_slots_destroy(&slots);
        }
    }
}

/* ---- generations ---- */

TEST(handles_of_32_bits_stay_within_them) {
    struct ps_slots slots;
    struct ps_slots_options options = {.handle_bits = 32};
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    uint64_t handle = 0;
    for (size_t i = 0; i < 4095; i++) {
        uint64_t next = insert_named(&slots, i + 1);
        CHECK_CMP(next, <=, UINT32_MAX);
        CHECK_CMP(next, >, handle);
        CHECK_EQ(next & 0xfffff, 0);
        CHECK(handle == 0 || ps_slots_get(&slots, handle) == NULL);
        CHECK(ps_slots_remove(&slots, next));
        handle = next;
    }
    THEN("the position is used up, and the next one serves");
    CHECK_EQ(insert_named(&slots, 1) & 0xfffff, 1);
    struct ps_slots_stats stats;
    ps_slots_stats(&slots, &stats);
    CHECK_EQ(stats.used_up_count, 1);
    CHECK(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
}

TEST(a_map_ends_with_its_last_generation_and_no_handle_comes_twice) {
    enum { GENERATIONS = 3 };
    struct ps_slots_options options = {.handle_bits = 32, .position_bits = 30};
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    static uint64_t seen[GENERATIONS];
    for (size_t i = 0; i < GENERATIONS; i++) {
        seen[i] = insert_named(&slots, 1);
        CHECK(ps_slots_remove(&slots, seen[i]));
        for (size_t k = 0; k <= i; k++) {
            CHECK(ps_slots_get(&slots, seen[k]) == NULL);
        }
    }
    CHECK_EQ(insert_named(&slots, 2) & 0x3fffffff, 1);
    ps_slots_destroy(&slots);
}

TEST(positions_run_out_exactly) {
    struct ps_slots_options options = {.position_bits = 4};
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    uint64_t handles[15];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 15; i++) {
            handles[i] = insert_named(&slots, i + 1);
            CHECK(handles[i] != 0);
        }
        errno = 0;
        CHECK_EQ(insert_named(&slots, 1), 0);
        CHECK_EQ(errno, ENOMEM);
        CHECK(!ps_slots_reserve(&slots, 1));
        CHECK(ps_slots_check(&slots));
        for (size_t i = 0; i < 15; i++) {
            CHECK_EQ(name_behind(&slots, handles[i]), i + 1);
            CHECK(ps_slots_remove(&slots, handles[i]));
        }
        if (round == 1) {
            ps_slots_trim_to(&slots, 0);
            CHECK(ps_slots_reserve(&slots, 15));
            CHECK(!ps_slots_reserve(&slots, 16));
        }
    }
    ps_slots_destroy(&slots);
}

TEST(used_up_chunks_return_their_memory) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_slots_options options = options_of(&source);
    options.handle_bits = 32;
    options.position_bits = 30;
    options.chunks.max_bytes = 1; /* 8 places to a chunk */
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    for (size_t i = 0; i < 8 * 3 * 20; i++) {
        uint64_t handle = insert_named(&slots, i);
        REQUIRE(handle != 0);
        CHECK(ps_slots_remove(&slots, handle));
    }
    uint64_t last = insert_named(&slots, 9);
    CHECK_EQ(last & 0x3fffffff, 160);
    struct ps_slots_stats stats;
    ps_slots_stats(&slots, &stats);
    CHECK_EQ(stats.used_up_count, 160);
    size_t returned = ps_slots_trim_to(&slots, 0);
    ps_slots_stats(&slots, &stats);
    CHECK_EQ(stats.used_up_count, 0);
    if (has_layout()) {
        CHECK_EQ(source.live_count, 2);
        CHECK_EQ(returned, 20 * slots.chunk_bytes);
    }
    CHECK(ps_slots_check(&slots));
    CHECK_EQ(name_behind(&slots, last), 9);
    CHECK(insert_named(&slots, 3) != 0);
    ps_slots_destroy(&slots);
    CHECK_EQ(source.live_bytes, 0);
}

/* ---- order and memory ---- */

TEST(iteration_is_in_order_of_position_over_holes) {
    enum { COUNT = 3000 };
    static uint64_t handles[COUNT];
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        handles[i] = insert_named(&slots, i);
        CHECK_EQ(handles[i] & UINT32_MAX, i);
    }
    static const size_t steps[] = {1, 2, 7, 64, 65, 1000};
    for (size_t s = 0; s < 6; s++) {
        for (size_t i = 0; i < COUNT; i++) { /* leaves each so many */
            bool is_kept = i % steps[s] == 0;
            if (!is_kept && handles[i] != 0) {
                CHECK(ps_slots_remove(&slots, handles[i]));
                handles[i] = 0;
            }
        }
        struct ps_slots_cursor cursor = ps_slots_begin();
        size_t next = 0;
        for (struct entity *e; (e = ps_slots_next(&slots, &cursor)) != NULL;) {
            while (handles[next] == 0) {
                next++;
            }
            CHECK_EQ(e->name, next);
            next++;
        }
        while (next < COUNT && handles[next] == 0) {
            next++;
        }
        CHECK_EQ(next, COUNT);
        CHECK(ps_slots_next(&slots, &cursor) == NULL);
    }
    WHEN("each object is removed as it is visited");
    struct ps_slots_cursor cursor = ps_slots_begin();
    for (struct entity *e; (e = ps_slots_next(&slots, &cursor)) != NULL;) {
        CHECK(ps_slots_remove(&slots, ps_slots_handle(e)));
    }
    CHECK_EQ(slots.live_count, 0);
    CHECK(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
}

TEST(max_items_is_exact) {
    static const size_t limits[] = {1, 7, 8, 100, 2000};
    for (size_t i = 0; i < 5; i++) {
        struct ps_slots_options options = {.max_items = limits[i]};
        struct ps_slots slots;
        REQUIRE(ps_slots_init(&slots, 16, 0, &options));
        for (size_t round = 0; round < 2; round++) {
            void *object = NULL;
            for (size_t n = 0; n < limits[i]; n++) {
                CHECK(ps_slots_insert(&slots, &object) != 0);
            }
            errno = 0;
            object = NULL;
            CHECK_EQ(ps_slots_insert(&slots, &object), 0);
            CHECK_EQ(errno, ENOMEM);
            CHECK(object == NULL);
            ps_slots_reset(&slots);
            CHECK_EQ(slots.live_count, 0);
        }
        CHECK(ps_slots_check(&slots));
        ps_slots_destroy(&slots);
    }
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
