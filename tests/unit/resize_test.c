// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Resizes between all kinds of blocks: contents intact, in place where promised, safe failure. */
#include "tests/unit/engine.h"

#define BLOCKS 40
#define ROUNDS (3000 / FRESH_SLOWNESS)

static uint64_t state = 4242;

/* A size of any regime: class, page run, mapping, and their edges. */
static size_t regime_size(void) {
    static const size_t edges[] = {1,
                                   8,
                                   16,
                                   17,
                                   256,
                                   257,
                                   1024,
                                   1025,
                                   64 * KIB,
                                   65537,
                                   128 * KIB,
                                   1 * MIB,
                                   4 * MIB - 4096,
                                   4 * MIB,
                                   4 * MIB + 1,
                                   7 * MIB};
    size_t count = sizeof edges / sizeof edges[0];
    size_t edge = edges[engine_random(&state) % count];
    return edge > 8 ? edge - 8 + engine_random(&state) % 17 : edge;
}

static void resize_at_random(size_t rounds) {
    static struct live_block blocks[BLOCKS];
    for (size_t round = 0; round < rounds; round++) {
        struct live_block *live = &blocks[engine_random(&state) % BLOCKS];
        size_t bytes = regime_size();
        if (live->address == NULL) {
            live_start(live, ps_heap_alloc(bytes), bytes, round);
            REQUIRE(live->address != NULL);
        } else if (round % 10 == 0) {
            live_end(live);
        } else {
            CHECK(live_resize(live, bytes, round));
        }
    }
    live_end_all(blocks, BLOCKS);
    check_live_blocks(0);
}

FRESH_TEST(contents_are_kept_from_any_size_to_any_size) { resize_at_random(ROUNDS); }

FRESH_TEST(contents_are_kept_when_mappings_cannot_grow_in_place) {
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE));
    resize_at_random(ROUNDS / 4);
}

FRESH_TEST(contents_are_kept_when_mappings_can_neither_grow_nor_move) {
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE) | FAKE_OS_BIT(FAKE_OS_MOVE));
    resize_at_random(ROUNDS / 4);
}

FRESH_TEST(a_small_block_stays_while_at_least_half_of_it_is_used) {
    ps_engine_start();
    for (size_t class_index = 0; class_index < ps_size_class_count; class_index++) {
        size_t bytes = ps_size_classes[class_index].block_bytes;
        void *block = ps_heap_alloc(bytes);
        CHECK_PTR_EQ(ps_block_resize(block, bytes / 2), block);
        CHECK_PTR_EQ(ps_block_resize(block, bytes), block);
        void *small = bytes >= 64 ? ps_block_resize(block, bytes / 4) : block;
        CHECK(bytes < 64 || small != block);
        ps_heap_free(small);
    }
    check_live_blocks(0);
}

FRESH_TEST(a_page_run_shrinks_in_place_and_gives_its_tail_back) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(3 * MIB), 3 * MIB, 1);
    void *before = live.address;
    CHECK(live_resize(&live, 1 * MIB, 2));
    CHECK_PTR_EQ(live.address, before);
    CHECK_EQ(engine_census().run_live_bytes, 1 * MIB);
    CHECK_EQ(engine_census().cache_dirty_bytes, 2 * MIB);
    CHECK(live_resize(&live, 600 * KIB, 3));
    CHECK_PTR_EQ(live.address, before);
    live_end(&live);
    check_live_blocks(0);
}

FRESH_TEST(a_page_run_grows_in_place_into_free_memory_behind_it) {
    struct live_block live;
    void *first = ps_heap_alloc(2 * MIB); /* the first arena, which is small */
    live_start(&live, ps_heap_alloc(600 * KIB), 600 * KIB, 1);
    void *before = live.address;
    for (size_t bytes = 700 * KIB; bytes < 3 * MIB; bytes += 100 * KIB) {
        CHECK(live_resize(&live, bytes, bytes));
        CHECK_PTR_EQ(live.address, before);
    }
    WHEN("a block lies right after it");
    void *blocker = ps_heap_alloc(600 * KIB);
    CHECK_PTR_EQ(blocker, (char *)before + (3 * MIB - 1) / PS_GRANULE_BYTES * PS_GRANULE_BYTES);
    CHECK(live_resize(&live, 3 * MIB + 100 * KIB, 5));
    CHECK(live.address != before);
    live_end(&live);
    ps_heap_free(blocker);
    ps_heap_free(first);
    check_live_blocks(0);
}

FRESH_TEST(a_mapping_moves_its_pages_instead_of_copying_them) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(5 * MIB), 5 * MIB, 1);
    for (size_t bytes = 6 * MIB; bytes < 60 * MIB; bytes += 7 * MIB) {
        CHECK(live_resize(&live, bytes, bytes));
        CHECK_EQ(engine_census().map_cached_count, 0); /* nothing was freed, as a copy would */
    }
    CHECK_CMP(fake_os_calls(FAKE_OS_RESIZE), >, 0);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE));
    uint64_t moves = fake_os_calls(FAKE_OS_MOVE);
    CHECK(live_resize(&live, 80 * MIB, 3));
    CHECK_EQ(fake_os_calls(FAKE_OS_MOVE), moves + 1);
    CHECK_EQ(engine_census().map_live_bytes, 80 * MIB);
    CHECK_EQ(engine_census().map_cached_count, 0);
    live_end(&live);
    check_live_blocks(0);
}

FRESH_TEST(a_mapping_that_shrinks_gives_the_rest_back) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(40 * MIB), 40 * MIB, 1);
    uint64_t mapped = fake_os_mapped_bytes();
    CHECK(live_resize(&live, 39 * MIB + 1, 2));
    CHECK_EQ(fake_os_mapped_bytes(), mapped - MIB + PS_GRANULE_BYTES);
    WHEN("the system does not shorten it");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE));
    void *before = live.address;
    uint64_t purged = fake_os_purged_bytes();
    CHECK(live_resize(&live, 21 * MIB, 2));
    CHECK_PTR_EQ(live.address, before);
    CHECK_EQ(fake_os_purged_bytes(), purged + 18 * MIB + PS_GRANULE_BYTES);
    fake_os_refuse(0);
    CHECK(live_resize(&live, 10 * MIB, 3));
    CHECK_EQ(fake_os_mapped_bytes(), mapped - 30 * MIB);
    check_live_blocks(1);
    CHECK(live_resize(&live, 1 * MIB, 4)); /* becomes a page run */
    CHECK_EQ(engine_census().run_live_count, 1);
    CHECK_EQ(engine_census().map_live_count, 0);
    live_end(&live);
    check_live_blocks(0);
}

FRESH_TEST(a_page_run_that_cannot_grow_in_place_becomes_a_mapping) {
    struct live_block live;
    void *first = ps_heap_alloc(2 * MIB); /* the first arena, which is small */
    live_start(&live, ps_heap_alloc(1 * MIB), 1 * MIB, 1);
    void *blocker = ps_heap_alloc(100 * KIB);
    uint64_t purged = fake_os_purged_bytes();
    CHECK(live_resize(&live, 2 * MIB, 2));
    CHECK_EQ(engine_census().map_live_bytes, 2 * MIB);
    THEN("the source of the copy has no memory any more");
    CHECK_EQ(fake_os_purged_bytes(), purged + 1 * MIB);
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
    live_end(&live);
    WHEN("another one grows soon after");
    live_start(&live, ps_heap_alloc(700 * KIB), 700 * KIB, 3);
    void *second = ps_heap_alloc(100 * KIB);
    CHECK(live_resize(&live, 1 * MIB, 4));
    THEN("it is still a page run");
    CHECK_EQ(engine_census().map_live_count, 0);
    live_end(&live);
    ps_heap_free(second);
    ps_heap_free(blocker);
    ps_heap_free(first);
    check_live_blocks(0);
}

FRESH_TEST(usable_size_follows_every_resize) {
    void *block = ps_heap_alloc(1);
    for (int round = 0; round < 500; round++) {
        size_t bytes = regime_size();
        block = ps_block_resize(block, bytes);
        REQUIRE(block != NULL);
        CHECK_CMP(ps_block_usable(block), >=, bytes);
        CHECK_CMP(ps_block_usable(block), <=, 2 * bytes + PS_GRANULE_BYTES);
        memset(block, 1, ps_block_usable(block));
    }
    ps_heap_free(block);
    check_live_blocks(0);
}

/* Resizes a block of `from` bytes upwards while the system refuses every call. */
static void check_failed_growth(size_t from) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(from), from, from);
    REQUIRE(live.address != NULL);
    fake_os_refuse(FAKE_OS_ALL & ~FAKE_OS_BIT(FAKE_OS_RELEASE));
    const size_t to[] = {900 * MIB, SIZE_MAX, (size_t)PTRDIFF_MAX + 1,
                         PTRDIFF_MAX - PS_GRANULE_BYTES};
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        void *before = live.address;
        errno = 0;
        CHECK(!live_resize(&live, to[i], 1));
        CHECK_EQ(errno, ENOMEM);
        CHECK_PTR_EQ(live.address, before);
        CHECK_CMP(ps_block_usable(before), >=, from);
    }
    fake_os_refuse(0);
    CHECK(live_resize(&live, from + 100, 2));
    live_end(&live);
    check_live_blocks(0);
}

FRESH_TEST(a_failed_resize_leaves_the_block_as_it_was) {
    const size_t sizes[] = {8, 100, 5000, 64 * KIB, 100 * KIB, 3 * MIB, 5 * MIB, 50 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_failed_growth(sizes[i]);
    }
}

/* With an inaccessible page after the block; each call of the system fails once, in its turn. */
static void move_guarded(uint32_t level) {
    engine_config.harden = level;
    for (uint64_t nth = 12; nth > 0; nth--) { /* a refused move makes the next ones rare */
        struct live_block live;
        live_start(&live, ps_heap_alloc(5 * MIB), 5 * MIB, nth);
        REQUIRE(live.address != NULL);
        fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE)); /* it cannot grow where it is */
        fake_os_fail_nth(nth);
        (void)live_resize(&live, 9 * MIB, nth + 1); /* checks the contents */
        fake_os_fail_nth(0);
        fake_os_refuse(0);
        live_end(&live);
    }
}

FRESH_TEST(a_guarded_mapping_that_moves_survives_each_failure_at_level_1) { move_guarded(1); }
FRESH_TEST(a_guarded_mapping_that_moves_survives_each_failure_at_level_2) { move_guarded(2); }
FRESH_TEST(a_guarded_mapping_that_moves_survives_each_failure_at_level_3) { move_guarded(3); }

/* A run that is to become a medium block, a medium one that is to become small, a small one that is
 * to become smaller. */
FRESH_TEST(a_block_that_shrinks_stays_when_there_is_no_memory_for_its_copy) {
    struct live_block run;
    struct live_block medium;
    struct live_block small;
    live_start(&small, ps_heap_alloc(8000), 8000, 3);
    live_start(&run, ps_heap_alloc(600 * KIB), 600 * KIB, 1);
    live_start(&medium, ps_heap_alloc(100 * KIB), 100 * KIB, 2);
    void *run_before = run.address;
    void *medium_before = medium.address;
    void *small_before = small.address;
    fake_os_refuse(FAKE_OS_ALL);
    while (ps_heap_alloc(8193) != NULL) {
    }
    while (ps_heap_alloc(100) != NULL) {
    }
    errno = 0;
    CHECK(live_resize(&small, 100, 5));
    CHECK_PTR_EQ(small.address, small_before);
    CHECK(live_resize(&run, 100 * KIB, 3));
    CHECK_PTR_EQ(run.address, run_before);
    CHECK(live_resize(&medium, 100, 4));
    CHECK_PTR_EQ(medium.address, medium_before);
    CHECK_EQ(errno, 0);
    fake_os_refuse(0);
    live_end(&small);
    live_end(&run);
    live_end(&medium);
}

FRESH_TEST(shrinking_a_mapping_works_when_the_system_refuses_everything_new) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(50 * MIB), 50 * MIB, 1);
    ps_heap_free(ps_heap_alloc(3 * MIB)); /* page runs are there */
    fake_os_refuse(FAKE_OS_ALL);
    CHECK(live_resize(&live, 2 * MIB, 2));
    fake_os_refuse(0);
    live_end(&live);
    ps_maintenance_trim(0);
    check_live_blocks(0);
}

UNIT_MAIN
