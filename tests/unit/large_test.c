// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Blocks above the size classes: page runs, mappings of their own, and the cache of freed ones,
 * whose age is measured by a clock that the tests move.
 */
#include "tests/unit/engine.h"

#include "pools/engine/heap/large.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/medium_path.h"

ENGINE_NO_SURPLUS

#define DELAY_MS 1000
#define ENTRIES 80

static uint64_t calls(void) {
    return fake_os_calls(FAKE_OS_RESERVE) + fake_os_calls(FAKE_OS_RELEASE) +
           fake_os_calls(FAKE_OS_PURGE) + fake_os_calls(FAKE_OS_RESIZE) +
           fake_os_calls(FAKE_OS_MOVE);
}

static void free_fresh(size_t bytes) { ps_heap_free(ps_heap_alloc(bytes)); }

FRESH_TEST(a_page_run_up_to_the_boundary_and_a_mapping_from_there_on) {
    struct ps_census census;
    size_t longest = 4 * MIB - ps_os_page_bytes();
    const size_t run_sizes[] = {64 * KIB + 1, 128 * KIB, 1 * MIB, longest};
    for (size_t i = 0; i < 4; i++) {
        void *block = ps_heap_alloc(run_sizes[i]);
        census = engine_census();
        CHECK_EQ(census.run_live_count, 1);
        CHECK_EQ(census.map_live_count, 0);
        ps_heap_free(block);
    }
    const size_t mapping_sizes[] = {longest + 1, 4 * MIB, 5 * MIB + 1, 70 * MIB};
    for (size_t i = 0; i < 4; i++) {
        void *block = ps_heap_alloc(mapping_sizes[i]);
        census = engine_census();
        CHECK_EQ(census.run_live_count, 0);
        CHECK_EQ(census.map_live_count, 1);
        CHECK_CMP(census.map_live_bytes, >=, mapping_sizes[i]);
        CHECK_CMP(census.map_live_bytes, <, mapping_sizes[i] + PS_GRANULE_BYTES);
        ps_heap_free(block);
        check_live_blocks(0);
    }
}

FRESH_TEST(usable_size_is_the_request_in_whole_pages) {
    for (size_t bytes = 64 * KIB + 1; bytes < 6 * MIB; bytes += 77777) {
        struct live_block live;
        live_start(&live, ps_heap_alloc(bytes), bytes, bytes);
        size_t page_bytes = ps_os_page_bytes();
        CHECK_EQ(ps_block_usable(live.address), (bytes + page_bytes - 1) / page_bytes * page_bytes);
        size_t align = ps_medium_is_size(bytes, 1) ? page_bytes : PS_GRANULE_BYTES;
        CHECK_EQ((uintptr_t)live.address % align, 0);
        live_end(&live);
    }
}

FRESH_TEST(any_alignment_to_a_gigabyte_is_had) {
    static struct live_block blocks[3 * 31];
    size_t count = 0;
    for (size_t align = 1; align <= (size_t)1 << 30; align *= 2) {
        const size_t sizes[] = {1, 100 * KIB, 5 * MIB};
        for (size_t i = 0; i < 3; i++) {
            void *block = ps_block_alloc_aligned(sizes[i], align);
            REQUIRE(block != NULL);
            CHECK_EQ((uintptr_t)block % align, 0);
            live_start(&blocks[count++], block, ps_block_usable(block), align);
        }
    }
    check_live_blocks(count);
    live_end_all(blocks, count);
    check_live_blocks(0);
}

FRESH_TEST(a_freed_mapping_serves_the_next_request_of_its_size) {
    free_fresh(8 * MIB);
    CHECK_EQ(engine_census().map_cached_count, 1);
    uint64_t before = calls();
    for (size_t i = 0; i < 50; i++) {
        struct live_block live;
        size_t bytes = 8 * MIB - i % 20 * 64 * KIB; /* a quarter longer than wanted is fine */
        live_start(&live, ps_heap_alloc(bytes), bytes, i);
        live_end(&live);
    }
    CHECK_EQ(calls(), before);
    WHEN("less than four fifths of it are wanted");
    void *small = ps_heap_alloc(6 * MIB);
    THEN("it is left alone");
    CHECK_EQ(engine_census().map_cached_count, 1);
    CHECK_EQ(engine_census().map_live_count, 1);
    ps_heap_free(small);
}

FRESH_TEST(the_mapping_that_fits_best_is_taken) {
    void *blocks[4];
    const size_t sizes[] = {9 * MIB, 8 * MIB, 10 * MIB, 8 * MIB + 64 * KIB};
    for (size_t i = 0; i < 4; i++) {
        blocks[i] = ps_heap_alloc(sizes[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_PTR_EQ(ps_heap_alloc(8 * MIB), blocks[1]);
    CHECK_PTR_EQ(ps_heap_alloc(8 * MIB), blocks[3]);
    CHECK_PTR_EQ(ps_heap_alloc(8 * MIB), blocks[0]);
    CHECK_PTR_EQ(ps_heap_alloc(8 * MIB), blocks[2]);
}

/* Looks at the clock until nothing is due. */
static size_t expire(void) {
    size_t bytes = 0;
    for (size_t step; (step = ps_mapping_expire(ps_os_now_ms())) != 0; bytes += step) {
        CHECK_CMP(step, <=, 4 * MIB);
    }
    return bytes;
}

FRESH_TEST(a_cached_mapping_goes_back_after_the_delay) {
    engine_config.purge_delay_ms = DELAY_MS;
    void *young = ps_heap_alloc(6 * MIB);
    free_fresh(5 * MIB);
    fake_os_advance_ms(DELAY_MS / 2);
    ps_heap_free(young);
    fake_os_advance_ms(DELAY_MS / 2 - 1);
    CHECK_EQ(expire(), 0);
    fake_os_advance_ms(1);
    CHECK_EQ(expire(), 5 * MIB);
    CHECK_EQ(engine_census().map_cached_bytes, 6 * MIB);
    fake_os_advance_ms(DELAY_MS / 2);
    CHECK_EQ(expire(), 6 * MIB);
    CHECK_EQ(engine_census().map_cached_bytes, 0);
    check_live_blocks(0);
}

FRESH_TEST(a_clock_read_before_the_mapping_was_freed_expires_nothing) {
    engine_config.purge_delay_ms = DELAY_MS;
    uint64_t read_ms = ps_os_now_ms();
    fake_os_advance_ms(4); /* meanwhile, in another thread */
    free_fresh(5 * MIB);
    CHECK_EQ(ps_mapping_expire(read_ms), 0);
    CHECK_EQ(engine_census().map_cached_bytes, 5 * MIB);
}

FRESH_TEST(growth_is_moved_to_mappings_again_when_the_delay_is_over) {
    engine_config.purge_delay_ms = DELAY_MS;
    size_t least = ps_mapping_grown_min_bytes();
    free_fresh(5 * MIB);
    CHECK_CMP(ps_mapping_grown_min_bytes(), >, 5 * MIB);
    void *block = ps_heap_alloc(5 * MIB); /* no mapping is cached any more */
    CHECK_CMP(ps_mapping_grown_min_bytes(), >, 5 * MIB);
    fake_os_advance_ms(DELAY_MS);
    CHECK_EQ(ps_mapping_grown_min_bytes(), least);
    ps_heap_free(block);
}

FRESH_TEST(slow_calls_release_expired_mappings) {
    engine_config.purge_delay_ms = DELAY_MS;
    free_fresh(5 * MIB);
    fake_os_advance_ms(DELAY_MS);
    for (int i = 0; i < 20; i++) {
        free_fresh(600 * KIB);
    }
    CHECK_EQ(engine_census().map_cached_bytes, 0);
}

FRESH_TEST(the_cache_is_bounded_in_bytes_and_the_oldest_go_first) {
    engine_config.cache_max_bytes = 20 * MIB;
    void *blocks[5];
    for (size_t i = 0; i < 5; i++) {
        blocks[i] = ps_heap_alloc(6 * MIB);
    }
    for (size_t i = 0; i < 5; i++) {
        fake_os_advance_ms(1);
        ps_heap_free(blocks[i]);
        CHECK_CMP(engine_census().map_cached_bytes, <=, 20 * MIB);
    }
    CHECK_EQ(engine_census().map_cached_count, 3);
    CHECK_EQ(fake_os_calls(FAKE_OS_RELEASE), 2);
    free_fresh(21 * MIB); /* alone too much */
    CHECK_EQ(engine_census().map_cached_count, 3);
    check_live_blocks(0);
}

FRESH_TEST(the_bound_of_the_cache_may_be_changed) {
    engine_config.cache_max_bytes = 20 * MIB;
    free_fresh(15 * MIB);
    CHECK_EQ(engine_census().map_cached_bytes, 15 * MIB);
    CHECK(ps_mapping_set_cache_max(10 * MIB));
    free_fresh(6 * MIB);
    CHECK_EQ(engine_census().map_cached_bytes, 6 * MIB);
    CHECK(ps_mapping_set_cache_max(0));
    free_fresh(7 * MIB);
    CHECK_EQ(engine_census().map_cached_bytes, 6 * MIB);
    check_live_blocks(0);
}

FRESH_TEST(hardened_processes_keep_no_mappings_whatever_the_bound) {
    engine_config.harden = 1;
    free_fresh(5 * MIB);
    CHECK(!ps_mapping_set_cache_max(20 * MIB));
    free_fresh(6 * MIB);
    CHECK_EQ(engine_census().map_cached_bytes, 0);
}

FRESH_TEST(the_cache_is_bounded_in_entries) {
    engine_config.mmap_min_bytes = 128 * KIB;
    static void *blocks[ENTRIES];
    for (size_t i = 0; i < ENTRIES; i++) {
        blocks[i] = ps_heap_alloc(128 * KIB);
    }
    for (size_t i = 0; i < ENTRIES; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_EQ(engine_census().map_cached_count, 64);
    CHECK_EQ(fake_os_calls(FAKE_OS_RELEASE), ENTRIES - 64);
    check_live_blocks(0);
}

FRESH_TEST(without_a_cache_or_a_delay_every_mapping_goes_back_at_once) {
    engine_config.cache_max_bytes = 0;
    free_fresh(5 * MIB);
    CHECK_EQ(engine_census().map_cached_count, 0);
    CHECK_EQ(fake_os_calls(FAKE_OS_RELEASE), 1);
    check_live_blocks(0);
}

FRESH_TEST(a_mapping_that_cannot_be_unmapped_becomes_part_of_the_page_cache) {
    engine_config.cache_max_bytes = 0;
    void *block = ps_heap_alloc(5 * MIB);
    memset(block, 0x5a, 5 * MIB);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE));
    ps_heap_free(block);
    struct ps_census census = engine_census();
    CHECK_EQ(census.cache_dirty_bytes, 5 * MIB);
    CHECK_CMP(census.arena_bytes, >=, census.cache_dirty_bytes + census.cache_clean_bytes);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    struct live_block again; /* no memory but that */
    live_start(&again, ps_block_zalloc(3 * MIB), 3 * MIB, 1);
    CHECK(again.address != NULL);
    check_live_blocks(1);
    live_end(&again);
    CHECK(ps_maintenance_trim(0));
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
}

FRESH_TEST(a_mapping_that_grew_beyond_the_page_map_can_become_page_cache_too) {
    engine_config.cache_max_bytes = 0;
    uintptr_t branch = (uintptr_t)1 << PS_BRANCH_SHIFT;
    uintptr_t boundary = ((uintptr_t)ps_heap_alloc(100 * KIB) / branch - 8) * branch;
    GIVEN("a mapping that has grown in place to addresses without a leaf");
    fake_os_place_next((void *)(boundary - 8 * MIB));
    void *block = ps_heap_alloc(8 * MIB);
    CHECK_PTR_EQ(block, (void *)(boundary - 8 * MIB));
    CHECK_PTR_EQ(ps_block_resize(block, 24 * MIB), block);
    CHECK_EQ(ps_page_map.x_root[boundary >> PS_BRANCH_SHIFT], 0);
    WHEN("the system does not unmap it");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE));
    ps_heap_free(block);
    THEN("nothing is written to the slots of foreign addresses");
    for (size_t i = 0; i < PS_LEAF_SLOTS; i++) {
        CHECK_EQ(ps_page_map.zero_leaf[i].run.kind, PS_RUN_NONE);
    }
    CHECK_EQ(engine_census().cache_dirty_bytes, 24 * MIB);
}

/* Writes to the whole of a block, frees it, and sees that a zeroed one of that size is. */
static void check_zeroed_reuse(size_t bytes) {
    for (int round = 0; round < 4; round++) {
        unsigned char *dirty = ps_heap_alloc(bytes);
        REQUIRE(dirty != NULL);
        memset(dirty, 0xa5, ps_block_usable(dirty));
        ps_heap_free(dirty);
        if (round % 2 == 1) {
            ps_maintenance_trim(0);
        }
        unsigned char *zeroed = ps_block_zalloc(bytes);
        REQUIRE(zeroed != NULL);
        size_t at = 0;
        while (at < bytes && zeroed[at] == 0) {
            at++;
        }
        CHECK_EQ(at, bytes);
        ps_heap_free(zeroed);
    }
}

FRESH_TEST(a_zeroed_block_is_zero_whatever_was_there_before) {
    const size_t sizes[] = {8, 1000, 30000, 64 * KIB, 65 * KIB, 600 * KIB, 5 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_zeroed_reuse(sizes[i]);
    }
}

FRESH_TEST(a_sparsely_used_block_is_zeroed_even_when_its_pages_cannot_be_dropped) {
    unsigned char *block = ps_heap_alloc(5 * MIB);
    block[3 * MIB] = 1;
    ps_heap_free(block);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    unsigned char *zeroed = ps_block_zalloc(5 * MIB);
    CHECK_PTR_EQ(zeroed, block);
    CHECK_EQ(zeroed[3 * MIB], 0);
    ps_heap_free(zeroed);
}

FRESH_TEST(large_blocks_are_whole_pages_of_the_system_whatever_their_size) {
    /* No less than the real ones: a part of a page cannot be purged. */
    for (size_t page_bytes = ps_os_page_bytes(); page_bytes <= 64 * KIB; page_bytes *= 4) {
        fake_os_set_page_bytes(page_bytes);
        ps_large_start(&engine_config);
        unsigned char *block = ps_heap_alloc(5 * MIB + 1);
        CHECK_EQ(ps_block_usable(block), 5 * MIB + page_bytes);
        block[3 * MIB] = 1;
        ps_heap_free(block);
        uint64_t purges = fake_os_calls(FAKE_OS_PURGE);
        unsigned char *zeroed = ps_block_zalloc(5 * MIB + 1);
        CHECK_PTR_EQ(zeroed, block);
        CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), purges + 1);
        CHECK_EQ(zeroed[3 * MIB], 0);
        ps_heap_free(zeroed);
        ps_maintenance_trim(0);
    }
    CHECK_EQ(fake_os_breaches(), 0);
}

FRESH_TEST(errno_survives_a_free_that_fails_inside) {
    engine_config.cache_max_bytes = 0;
    void *block = ps_heap_alloc(5 * MIB);
    fake_os_refuse(FAKE_OS_ALL);
    errno = 4711;
    ps_heap_free(block);
    CHECK_EQ(errno, 4711);
}

FRESH_TEST(hardened_mappings_that_munmap_refuses_are_accessible_to_their_end) {
    enum { COUNT = 64 };
    static struct live_block blocks[COUNT];
    engine_config.harden = 2;
    engine_config.mmap_min_bytes = 128 * KIB;
    GIVEN("a mapping whose last page is a guard");
    void *mapping = ps_heap_alloc(200 * KIB);
    WHEN("the system does not take it back, and it becomes part of the page cache");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE));
    ps_heap_free(mapping);
    fake_os_refuse(0);
    THEN("blocks may lie all over it");
    for (size_t i = 0; i < COUNT; i++) {
        live_start(&blocks[i], ps_heap_alloc(8000), 8000, i);
    }
    live_end_all(blocks, COUNT);
}

UNIT_MAIN
