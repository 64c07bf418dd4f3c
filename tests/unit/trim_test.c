// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Memory that is released, by time passing on slow calls and on demand. */
#include "tests/unit/engine.h"

#define BLOCKS 40000
#define DELAY_MS 1000

static struct live_block blocks[BLOCKS];

static void fill(size_t count, size_t bytes) { live_start_all(blocks, count, bytes); }

/* Makes as many slow calls as a program does: each large block is one. */
static void pass_time(uint64_t ms) {
    for (uint64_t step = 0; step < ms; step += 50) {
        fake_os_advance_ms(50);
        for (int i = 0; i < 10; i++) {
            ps_heap_free(ps_heap_alloc(600 * KIB));
        }
    }
}

static size_t blocks_per_span(size_t bytes) {
    const struct ps_size_class *class = &ps_size_classes[ps_size_class_of(bytes)];
    return (size_t)(class->limit - class->first);
}

FRESH_TEST(a_trim_before_the_first_allocation_finds_nothing) {
    CHECK(!ps_maintenance_trim(0));
    CHECK_EQ(fake_os_mapped_bytes(), 0);
    ps_heap_free(ps_heap_alloc(100));
    check_live_blocks(0);
}

FRESH_TEST(trimming_an_empty_heap_gives_everything_back) {
    const size_t sizes[] = {8, 100, 1000, 30000};
    for (size_t i = 0; i < 4; i++) {
        fill(1000, sizes[i]);
        live_end_all(blocks, 1000);
    }
    ps_heap_free(ps_heap_alloc(9 * MIB));
    CHECK(ps_maintenance_trim(0));
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_slab_bytes, 0);
    CHECK_EQ(census.cache_dirty_bytes, 0);
    CHECK_EQ(census.map_cached_bytes, 0);
    CHECK_EQ(census.mapped_bytes, census.metadata_bytes);
    check_census(&census);
    CHECK(!ps_maintenance_trim(0));
}

FRESH_TEST(a_trim_keeps_every_block_and_about_the_requested_bytes) {
    fill(5000, 1000);
    for (size_t i = 0; i < 5000; i++) {
        if (i % 100 != 0) {
            live_end(&blocks[i]);
        }
    }
    ps_heap_free(ps_heap_alloc(4 * MIB - PS_GRANULE_BYTES));
    CHECK(ps_maintenance_trim(2 * MIB));
    CHECK_EQ(engine_census().cache_dirty_bytes, 2 * MIB);
    CHECK(ps_maintenance_trim(0));
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
    check_live_blocks(50);
    live_end_all(blocks, 5000);
    check_live_blocks(0);
}

FRESH_TEST(virgin_blocks_that_a_trim_took_from_the_bin_are_still_zero) {
    memset(ps_heap_alloc(100), 0xff, 100);
    ps_maintenance_trim(0);
    for (size_t i = 0; i < 200; i++) {
        unsigned char *block = ps_block_zalloc(100);
        CHECK(engine_is_zero(block, 100));
        memset(block, 0xff, 100);
    }
    check_live_blocks(201);
}

FRESH_TEST(a_heap_that_has_shrunk_is_small_after_a_delay_of_activity) {
    GIVEN("200 MiB of all sizes, then 1 MiB");
    for (size_t i = 0; i < 6000; i++) {
        size_t bytes = i % 3 == 0 ? 100 * KIB : 100 + i % 900;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
    }
    fill(0, 0);
    for (size_t i = 0; i < 6000; i++) {
        if (i % 300 != 1) {
            live_end(&blocks[i]);
        }
    }
    WHEN("the program goes on for a delay and a half");
    pass_time(DELAY_MS * 3 / 2);
    THEN("hardly any idle memory is retained");
    struct ps_census census = engine_census();
    CHECK_CMP(census.cache_dirty_bytes, <=, 2 * MIB);
    CHECK_CMP(census.small_slab_bytes, <=, 4 * MIB);
    check_live_blocks(20);
    live_end_all(blocks, 6000);
}

FRESH_TEST(swinging_across_the_edge_of_a_span_does_not_touch_the_page_cache) {
    size_t capacity = (ps_engine_start(), blocks_per_span(1024));
    fill(capacity, 1024);
    struct ps_census before = engine_census();
    for (int swing = 0; swing < 100; swing++) {
        for (size_t i = 0; i < 20; i++) {
            live_start(&blocks[capacity + i], ps_heap_alloc(1024), 1024, i);
        }
        live_end_all(&blocks[capacity], 20);
        CHECK_CMP(engine_census().small_slab_bytes, <=, before.small_slab_bytes + PS_GRANULE_BYTES);
    }
    CHECK_EQ(engine_census().cache_dirty_bytes, before.cache_dirty_bytes);
}

FRESH_TEST(a_drained_span_that_was_kept_goes_when_time_passes) {
    size_t capacity = (ps_engine_start(), blocks_per_span(1024));
    fill(3 * capacity, 1024);
    live_end_all(blocks, capacity);
    CHECK_EQ(engine_census().small_slab_bytes, 3 * PS_GRANULE_BYTES);
    pass_time(DELAY_MS / 2);
    CHECK_EQ(engine_census().small_slab_bytes, 2 * PS_GRANULE_BYTES);
    live_end_all(blocks, 3 * capacity);
    check_live_blocks(0);
}

FRESH_TEST(a_drained_span_goes_also_when_another_one_got_room_after_it) {
    size_t capacity = (ps_engine_start(), blocks_per_span(1024));
    fill(4 * capacity, 1024);
    live_end_all(blocks, capacity);
    GIVEN("a drained slab, and then another one with room for a few");
    live_end_all(&blocks[capacity], capacity / 2);
    CHECK_EQ(engine_census().small_slab_bytes, 4 * PS_GRANULE_BYTES);
    WHEN("time passes without a call for this class");
    pass_time(DELAY_MS / 2);
    THEN("the drained one goes");
    CHECK_EQ(engine_census().small_slab_bytes, 3 * PS_GRANULE_BYTES);
    live_end_all(blocks, 4 * capacity);
    check_live_blocks(0);
}

FRESH_TEST(the_touched_pages_of_a_slab_with_a_window_go_when_time_passes) {
    GIVEN("blocks of the first pages of a slab, whose next ones are in the window");
    fill(20, 2048);
    live_end_all(blocks, 20);
    WHEN("time passes without a call for the class");
    pass_time(4 * DELAY_MS);
    THEN("the slab has no page that was used");
    struct ps_census census = engine_census();
    CHECK_CMP(census.small_slab_bytes, <=, PS_GRANULE_BYTES);
    CHECK(census.small_slab_bytes == 0 || fake_os_purged_bytes() >= (size_t)18 * 2048);
    check_live_blocks(0);
}

FRESH_TEST(a_purge_that_fails_in_a_trim_loses_nothing) {
    fill(3000, 1000);
    live_end_all(blocks, 3000);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_maintenance_trim(0));
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_CMP(census.cache_dirty_bytes, >, 2 * MIB);
    fill(3000, 1000);
    check_live_blocks(3000);
    fake_os_refuse(0);
    live_end_all(blocks, 3000);
    CHECK(ps_maintenance_trim(0));
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
}

/* Their sparse slabs are drained and retained, each after the others of its class. */
FRESH_TEST(a_trim_of_hardened_blocks_ends) {
    engine_config.harden = 2;
    fill(2000, 64);
    live_end_all(blocks, 2000);
    ps_maintenance_trim(0);
    fill(2000, 64);
    live_end_all(blocks, 2000);
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    check_census(&census);
}

UNIT_MAIN
