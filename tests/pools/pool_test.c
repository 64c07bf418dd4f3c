/* SPDX-License-Identifier: MIT */
/*
 * Pools of objects of one size: the claims of poolshim/pool.h one by one, and the traps of the
 * pools it follows. What PS_DEBUG changes is in pool_debug_test.c.
 */
#include "tests/unit/unit.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"

#include <errno.h>
#include <poolshim/pool.h>

#define COUNT 2000

static void *objects[COUNT];

static struct ps_pool_stats stats_of(struct ps_pool *pool) {
    struct ps_pool_stats stats;
    ps_pool_stats(pool, &stats);
    return stats;
}

static void fill_all(struct ps_pool *pool) {
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = ps_pool_alloc(pool);
        REQUIRE(objects[i] != NULL);
    }
}

TEST(the_object_freed_last_comes_first) {
    NEEDS_CHUNKS();
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 24, 0, NULL));
    fill_all(&pool);
    ps_pool_free(&pool, objects[7]);
    ps_pool_free(&pool, objects[3]);
    if (!ps_debug_is_check()) {
        CHECK_PTR_EQ(ps_pool_alloc(&pool), objects[3]);
        CHECK_PTR_EQ(ps_pool_alloc(&pool), objects[7]);
    }
    ps_pool_destroy(&pool);
}

TEST(an_ordered_pool_gives_low_addresses_first) {
    NEEDS_CHUNKS();
    struct ps_pool pool;
    struct ps_pool_options options = {.is_ordered = true, .chunks = {.first_bytes = 1 << 20}};
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    fill_all(&pool);
    static const size_t freed[] = {1500, 70, 900, 71, 4};
    for (size_t i = 0; i < 5; i++) {
        ps_pool_free(&pool, objects[freed[i]]);
    }
    static const size_t wanted[] = {4, 70, 71, 900, 1500};
    void *got[5];
    for (size_t i = 0; i < 5; i++) {
        got[i] = ps_pool_alloc(&pool);
    }
    CHECK_PTR_EQ(got[0], objects[4]);
    for (size_t i = 0; i < 5; i++) {
        bool is_found = false;
        for (size_t j = 0; j < 5; j++) {
            is_found |= got[j] == objects[wanted[i]];
        }
        CHECK(is_found);
    }
    ps_pool_destroy(&pool);
}

TEST(a_pool_takes_no_memory_before_its_first_object) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_pool_options options = {.chunks = {.source = &source.source}};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    CHECK_EQ(source.calls, 0);
    CHECK(ps_pool_try_alloc(&pool) == NULL);
    CHECK_EQ(source.calls, 0);
    ps_pool_destroy(&pool);
}

TEST(chunks_double_up_to_the_longest) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_pool_options options = {
        .chunks = {.source = &source.source, .first_bytes = 4096, .max_bytes = 16384}};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 100, 4, &options));
    for (size_t i = 0; i < 250; i++) {
        REQUIRE(ps_pool_alloc(&pool) != NULL);
    }
    CHECK_EQ(source.calls, 3);
    CHECK_EQ(source.live_bytes, 4096 + 8192 + 16384 + (source.calls - 3) * 16384);
    CHECK_EQ(stats_of(&pool).next_bytes, 16384);
    ps_pool_destroy(&pool);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(memory_that_was_not_handed_out_is_not_touched) {
    GIVEN("a chunk of a megabyte with a mark in its middle");
    static char room[1 << 20] __attribute__((aligned(4096)));
    static const size_t sizes[] = {24, 4, 1};
    for (size_t i = 0; i < 3; i++) {
        memset(room, 0x5a, sizeof room);
        struct ps_source_buffer buffer;
        ps_source_buffer_init(&buffer, room, sizeof room);
        struct ps_pool_options options = {
            .chunks = {.source = &buffer.source, .first_bytes = sizeof room}};
        struct ps_pool pool;
        REQUIRE(ps_pool_init(&pool, sizes[i], 0, &options));
        REQUIRE(ps_pool_alloc(&pool) != NULL);
        if (!ps_debug_is_check()) {
            size_t untouched = 0;
            for (size_t byte = 8192; byte < sizeof room; byte++) {
                untouched += room[byte] == 0x5a;
            }
            CHECK_EQ(untouched, sizeof room - 8192);
        }
        ps_pool_destroy(&pool);
    }
}

TEST(objects_are_aligned_as_asked) {
    for (size_t align = 1; align <= PS_POOL_ALIGN_MAX; align *= 2) {
        for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
            struct ps_pool_options options = {.is_ordered = is_ordered != 0};
            struct ps_pool pool;
            REQUIRE(ps_pool_init(&pool, 20, align, &options));
            for (size_t i = 0; i < 100; i++) {
                CHECK_EQ((uintptr_t)ps_pool_alloc(&pool) % align, 0);
            }
            ps_pool_destroy(&pool);
        }
    }
    struct ps_pool pool;
    static const size_t natural[][2] = {{12, 4}, {16, 16}, {48, 16}, {40, 8}, {6, 2}, {7, 1}};
    for (size_t i = 0; i < sizeof natural / sizeof natural[0]; i++) {
        REQUIRE(ps_pool_init(&pool, natural[i][0], 0, NULL));
        for (size_t j = 0; j < 100; j++) {
            CHECK_EQ((uintptr_t)ps_pool_alloc(&pool) % natural[i][1], 0);
        }
        ps_pool_destroy(&pool);
    }
}

TEST(bad_arguments_are_refused) {
    struct ps_pool pool;
    static const size_t aligns[] = {3, 24, PS_POOL_ALIGN_MAX * 2, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        CHECK(!ps_pool_init(&pool, 8, aligns[i], NULL));
        CHECK_EQ(errno, EINVAL);
    }
    struct ps_pool_options both = {.is_ordered = true, .is_unchecked = true};
    errno = 0;
    CHECK(!ps_pool_init(&pool, 8, 8, &both));
    CHECK_EQ(errno, EINVAL);
    CHECK(!ps_pool_init(&pool, SIZE_MAX, 1, NULL));
    CHECK(!ps_pool_init(&pool, (size_t)PTRDIFF_MAX, 1, NULL));
    CHECK_EQ(ps_pool_chunk_bytes(24, 3, 10, NULL), 0);
    CHECK_EQ(ps_pool_chunk_bytes(24, 8, SIZE_MAX / 24, NULL), 0);
    CHECK_EQ(ps_pool_chunk_bytes(24, 8, SIZE_MAX / 2, NULL), 0);
    CHECK_EQ(ps_pool_chunk_bytes(1, 1, SIZE_MAX, NULL), 0);
    errno = 0;
    REQUIRE(ps_pool_init(&pool, 4, 4, NULL));
    CHECK(ps_pool_alloc_n(&pool, 2) == NULL);
    CHECK_EQ(errno, EINVAL);
    ps_pool_destroy(&pool);
}

TEST(size_zero_and_null_are_harmless) {
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 0, 0, NULL));
    void *first = ps_pool_alloc(&pool);
    void *second = ps_pool_alloc_n(&pool, 0);
    CHECK(first != NULL && second != NULL && first != second);
    ps_pool_free_n(&pool, second, 0);
    ps_pool_free(&pool, NULL);
    ps_pool_free_n(&pool, NULL, 0);
    ps_pool_free_n(&pool, NULL, 100);
    ps_pool_free_list(&pool, NULL, 0);
    CHECK_EQ(stats_of(&pool).used_count, 1);
    ps_pool_destroy(&pool);
    ps_pool_destroy(&pool);
}

TEST(counts_that_overflow_are_memory_that_is_out) {
    NEEDS_CHUNKS();
    for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
        struct ps_pool_options options = {.is_ordered = is_ordered != 0};
        struct ps_pool pool;
        REQUIRE(ps_pool_init(&pool, 24, 0, &options));
        void *object = ps_pool_alloc(&pool);
        static const size_t counts[] = {SIZE_MAX,          SIZE_MAX / 24,     SIZE_MAX / 24 + 1,
                                        SIZE_MAX / 24 - 4, SIZE_MAX / 24 - 1, SIZE_MAX / 2,
                                        SIZE_MAX / 2 + 1};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            errno = 0;
            CHECK(ps_pool_alloc_n(&pool, counts[i]) == NULL);
            CHECK_EQ(errno, ENOMEM);
            errno = 0;
            CHECK(!ps_pool_reserve(&pool, counts[i]));
            CHECK_EQ(errno, ENOMEM);
        }
        CHECK_EQ(stats_of(&pool).used_count, 1);
        ps_pool_free(&pool, object);
        ps_pool_destroy(&pool);
    }
}

TEST(a_bounded_pool_gives_exactly_max_items) {
    static const size_t sizes[] = {1, 4, 8, 24, 240};
    for (size_t i = 0; i < 5; i++) {
        for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
            struct ps_pool_options options = {.is_ordered = is_ordered != 0, .max_items = COUNT};
            struct ps_pool pool;
            REQUIRE(ps_pool_init(&pool, sizes[i], 0, &options));
            fill_all(&pool);
            for (int round = 0; round < 3; round++) {
                errno = 0;
                CHECK(ps_pool_alloc(&pool) == NULL);
                CHECK_EQ(errno, ENOMEM);
                CHECK(ps_pool_try_alloc(&pool) == NULL);
                size_t freed = 0;
                for (size_t j = 0; j < COUNT; j++) {
                    if (unit_random() % 2 == 0) {
                        ps_pool_free(&pool, objects[j]);
                        objects[j] = NULL;
                        freed++;
                    }
                }
                for (size_t j = 0; j < COUNT; j++) {
                    if (objects[j] == NULL) {
                        objects[j] = ps_pool_alloc(&pool);
                        freed -= objects[j] != NULL;
                    }
                }
                CHECK_EQ(freed, 0);
            }
            ps_pool_reset(&pool);
            fill_all(&pool);
            CHECK(ps_pool_alloc(&pool) == NULL);
            ps_pool_destroy(&pool);
        }
    }
}

TEST(a_bounded_pool_takes_no_longer_chunk_than_it_can_use) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_pool_options options = {.max_items = 10,
                                      .chunks = {.source = &source.source, .first_bytes = 65536}};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    REQUIRE(ps_pool_alloc(&pool) != NULL);
    CHECK_CMP(source.live_bytes, <, 1024);
    ps_pool_destroy(&pool);
}

TEST(reserve_is_what_alloc_needs) {
    for (size_t size = 1; size < 100; size += 7) {
        for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
            struct counting_source source = new_source(SIZE_MAX);
            struct ps_pool_options options = {.is_ordered = is_ordered != 0,
                                              .chunks = {.source = &source.source}};
            struct ps_pool pool;
            REQUIRE(ps_pool_init(&pool, size, 0, &options));
            void *one = ps_pool_alloc(&pool);
            ps_pool_free(&pool, one);
            REQUIRE(ps_pool_reserve(&pool, COUNT));
            size_t calls = source.calls;
            CHECK(ps_pool_reserve(&pool, COUNT));
            fill_all(&pool);
            CHECK_EQ(source.calls, calls);
            ps_pool_destroy(&pool);
        }
    }
    struct ps_pool_options options = {.max_items = 5};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    CHECK(ps_pool_reserve(&pool, 5));
    CHECK(!ps_pool_reserve(&pool, 6));
    ps_pool_destroy(&pool);
}

TEST(chunk_bytes_is_one_chunk_for_as_many) {
    NEEDS_CHUNKS();
    for (size_t size = 1; size < 100; size += 9) {
        for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
            struct counting_source source = new_source(1);
            struct ps_pool_options options = {.is_ordered = is_ordered != 0,
                                              .chunks = {.source = &source.source}};
            options.chunks.first_bytes = ps_pool_chunk_bytes(size, 0, COUNT, &options);
            struct ps_pool pool;
            REQUIRE(ps_pool_init(&pool, size, 0, &options));
            fill_all(&pool);
            CHECK_EQ(source.calls, 1);
            ps_pool_destroy(&pool);
        }
    }
}

TEST(arrays_are_neighbours_and_come_back) {
    for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
        struct ps_pool_options options = {.is_ordered = is_ordered != 0};
        struct ps_pool pool;
        REQUIRE(ps_pool_init(&pool, 8, 0, &options));
        for (size_t round = 0; round < 100; round++) {
            for (size_t i = 0; i < 200; i++) {
                objects[i] = ps_pool_alloc_n(&pool, 4);
                memset(objects[i], (int)i, 32);
            }
            for (size_t i = 0; i < 200; i++) {
                CHECK_EQ(((unsigned char *)objects[i])[31], i);
                ps_pool_free_n(&pool, objects[i], 4);
            }
        }
        GIVEN("the same arrays a hundred times");
        CHECK_CMP(stats_of(&pool).total_bytes, <=, 32768);
        void *long_array = ps_pool_alloc_n(&pool, 1000000);
        REQUIRE(long_array != NULL);
        memset(long_array, 1, 8000000);
        ps_pool_free_n(&pool, long_array, 1000000);
        ps_pool_destroy(&pool);
    }
}

TEST(an_ordered_pool_finds_runs_wherever_they_are) {
    NEEDS_CHUNKS();
    struct ps_pool_options options = {.is_ordered = true};
    struct counting_source source = new_source(SIZE_MAX);
    options.chunks.source = &source.source;
    options.chunks.first_bytes = ps_pool_chunk_bytes(8, 0, COUNT, &options);
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 8, 0, &options));
    fill_all(&pool);
    while (ps_pool_try_alloc(&pool) != NULL) {
    }
    for (size_t first = 0; first + 300 < COUNT; first += 37) {
        size_t length = 2 + first % 270;
        for (size_t i = first; i < first + length; i++) {
            ps_pool_free(&pool, objects[i]);
        }
        CHECK_PTR_EQ(ps_pool_alloc_n(&pool, length), objects[first]);
        CHECK_PTR_EQ(NULL, ps_pool_try_alloc(&pool));
        ps_pool_free_n(&pool, objects[first], length);
        for (size_t i = first; i < first + length; i++) {
            CHECK_PTR_EQ(ps_pool_try_alloc(&pool), objects[i]);
        }
    }
    CHECK_EQ(source.calls, 1);
    ps_pool_destroy(&pool);
}

TEST(a_search_that_failed_does_not_hide_what_is_freed_later) {
    NEEDS_CHUNKS();
    struct ps_pool_options options = {.is_ordered = true, .max_items = 16};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 8, 0, &options));
    void *first = ps_pool_alloc_n(&pool, 2);
    void *second = ps_pool_alloc_n(&pool, 3);
    void *third = ps_pool_alloc_n(&pool, 4);
    REQUIRE(first != NULL && second != NULL && third != NULL);
    REQUIRE(ps_pool_alloc_n(&pool, 7) != NULL);
    ps_pool_free_n(&pool, first, 2);
    ps_pool_free_n(&pool, third, 4);
    CHECK(ps_pool_alloc_n(&pool, 5) == NULL);
    ps_pool_free_n(&pool, second, 3);
    CHECK_PTR_EQ(ps_pool_alloc_n(&pool, 9), first);
    ps_pool_destroy(&pool);
}

UNIT_MAIN
