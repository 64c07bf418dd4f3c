// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The census: every figure is what the program did, at any moment and from any thread. */
#include "pools/engine/heap/medium_path.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

ENGINE_LONG_CLASSES

#define BLOCKS 3000

static struct live_block blocks[BLOCKS];

static const struct ps_census_class *class_of(const struct ps_census *census, size_t bytes) {
    return &census->classes[ps_size_class_of(bytes)];
}

FRESH_TEST(a_census_finds_nothing_at_first) {
    ps_engine_start();
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_EQ(census.class_count, ps_size_class_count);
    for (uint32_t i = 0; i < census.class_count; i++) {
        CHECK_EQ(census.classes[i].block_bytes, ps_size_classes[i].block_bytes);
        CHECK_EQ(census.classes[i].slabs, 0);
    }
}

FRESH_TEST(live_blocks_are_exact_after_every_single_call) {
    const size_t sizes[] = {8, 64, 300, 5000, 50000};
    for (size_t size = 0; size < 5; size++) {
        size_t bytes = sizes[size];
        for (size_t i = 0; i < 150; i++) {
            live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
            struct ps_census census = engine_census();
            CHECK_EQ(class_of(&census, bytes)->live_blocks, i + 1);
        }
        for (size_t i = 0; i < 150; i++) { /* through pushes, events and free streaks */
            live_end(&blocks[size % 2 == 0 ? i : i * 7 % 150]);
            struct ps_census census = engine_census();
            CHECK_EQ(class_of(&census, bytes)->live_blocks, 149 - i);
        }
    }
}

FRESH_TEST(prepared_blocks_are_those_that_the_window_has_ready) {
    for (size_t bytes = 16; bytes < 3000; bytes *= 3) {
        void *block = ps_heap_alloc(bytes);
        struct ps_census census = engine_census();
        uint64_t prepared = class_of(&census, bytes)->prepared_blocks;
        uint64_t spans = class_of(&census, bytes)->slabs;
        CHECK_EQ(spans, 1);
        for (uint64_t i = prepared; i > 0; i--) {
            REQUIRE(ps_heap_alloc(bytes) != NULL);
            census = engine_census();
            CHECK_EQ(class_of(&census, bytes)->prepared_blocks, i - 1);
        }
        CHECK_EQ(class_of(&census, bytes)->live_blocks, prepared + 1);
        ps_heap_free(block);
    }
}

FRESH_TEST(bytes_are_blocks_times_their_size) {
    uint64_t state = 8;
    uint64_t small_bytes = 0;
    uint64_t run_bytes = 0;
    uint64_t map_bytes = 0;
    uint64_t counts[3] = {0};
    for (size_t i = 0; i < 1000; i++) {
        size_t bytes = engine_random_size(&state);
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        bool is_small = bytes <= 64 * KIB;
        size_t page_bytes = ps_max(PS_MEDIUM_PAGE_BYTES, ps_os_page_bytes());
        size_t unit = ps_medium_is_size(bytes, 1) ? page_bytes : PS_GRANULE_BYTES;
        size_t granules = (bytes + unit - 1) / unit * unit;
        size_t class_bytes = is_small ? ps_size_classes[ps_size_class_of(bytes)].block_bytes : 0;
        small_bytes += class_bytes;
        run_bytes += !is_small && bytes <= 4 * MIB - 4096 ? granules : 0;
        map_bytes += bytes > 4 * MIB - 4096 ? granules : 0;
        counts[is_small ? 0 : bytes <= 4 * MIB - 4096 ? 1 : 2]++;
    }
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_live_bytes, small_bytes);
    CHECK_EQ(census.run_live_bytes, run_bytes);
    CHECK_EQ(census.map_live_bytes, map_bytes);
    CHECK_EQ(census.run_live_count, counts[1]);
    CHECK_EQ(census.map_live_count, counts[2]);
    CHECK_EQ(census_live_blocks(&census), 1000);
    check_census(&census);
    live_end_all(blocks, 1000);
    check_live_blocks(0);
}

FRESH_TEST(mapped_bytes_are_those_allocated_and_not_returned) {
    void *block = ps_heap_alloc(3 * MIB);
    struct ps_census census = engine_census();
    CHECK_EQ(census.mapped_bytes, 3 * MIB + census.metadata_bytes);
    ps_heap_free(block);
    census = engine_census();
    CHECK_EQ(census.mapped_bytes, 3 * MIB + census.metadata_bytes);
    CHECK_EQ(census.cache_dirty_bytes, 3 * MIB);
    ps_maintenance_trim(0);
    census = engine_census();
    CHECK_EQ(census.mapped_bytes, census.metadata_bytes);
    block = ps_heap_alloc(8 * MIB);
    census = engine_census();
    CHECK_EQ(census.mapped_bytes, 8 * MIB + census.metadata_bytes);
    ps_heap_free(block);
    census = engine_census();
    CHECK_EQ(census.mapped_bytes, 8 * MIB + census.metadata_bytes);
}

FRESH_TEST(returned_memory_is_counted) {
    ps_heap_free(ps_heap_alloc(3 * MIB));
    CHECK_EQ(engine_census().purged_bytes, 0);
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census.purged_bytes, 3 * MIB);
    CHECK_EQ(census.purge_count, 1);
    ps_heap_free(ps_heap_alloc(9 * MIB));
    ps_maintenance_trim(0);
    census = engine_census();
    CHECK_EQ(census.purged_bytes, 12 * MIB);
    CHECK_EQ(census.purge_count, 2);
}

static void allocate_some(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        live_start(&blocks[i], ps_heap_alloc(i % 700), i % 700, i);
    }
}

static void check_counts_from_outside(void *unused) {
    (void)unused;
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_EQ(census_live_blocks(&census), BLOCKS);
}

FRESH_TEST(another_thread_sees_the_same) {
    allocate_some(NULL);
    check_live_blocks(BLOCKS);
    worker_do_and_end(check_counts_from_outside, NULL);
    live_end_all(blocks, BLOCKS);
    check_live_blocks(0);
}

static void check_peek(void) {
    struct ps_census census = engine_census(); /* first: it settles the caller's heap */
    struct ps_census peek;
    ps_census_peek(&peek);
    CHECK_EQ(memcmp(&census, &peek, sizeof census), 0);
}

FRESH_TEST(a_census_without_locks_is_the_same_while_nothing_changes) {
    check_peek();
    allocate_some(NULL);
    check_peek();
    live_end_all(blocks, BLOCKS / 2);
    check_peek();
    ps_maintenance_trim(0);
    check_peek();
    live_end_all(blocks, BLOCKS);
    check_peek();
}

static uint64_t calls;

/* Allocates and frees at random, above and below the classes, so that lists, windows, streaks,
 * events and refills of all kinds take part. */
static void call_at_random(uint64_t *state, size_t rounds) {
    for (size_t i = 0; i < rounds; i++) {
        struct live_block *block = &blocks[engine_random(state) % BLOCKS];
        if (block->address != NULL) {
            live_end(block);
        } else {
            size_t bytes =
                i % 50 != 0 ? 1 + engine_random(state) % 3000 : engine_random_size(state);
            live_start(block, ps_heap_alloc(bytes), bytes, i);
            calls++;
        }
    }
}

static void check_calls(void) {
    struct ps_census census = engine_census();
    CHECK(census.has_calls);
    CHECK_EQ(census.malloc_count, calls);
    CHECK_EQ(census.malloc_count - census.free_count, census_live_blocks(&census));
}

FRESH_TEST(calls_of_malloc_and_free_are_counted_exactly) {
    uint64_t state = 5;
    for (int i = 0; i < 200; i++) {
        call_at_random(&state, 1 + engine_random(&state) % 1000);
        check_calls();
    }
    live_end_all(blocks, BLOCKS);
    check_calls();
    for (size_t i = 0; i < BLOCKS; i++) { /* in order, so that they are freed in streaks */
        live_start(&blocks[i], ps_heap_alloc(40), 40, i);
        calls++;
    }
    live_end_all(blocks, BLOCKS);
    check_calls();
}

static void call_and_check_not(void *unused) {
    (void)unused;
    uint64_t state = 6;
    call_at_random(&state, 20000);
}

FRESH_TEST(calls_of_ended_threads_are_counted) {
    uint64_t state = 7;
    for (int i = 0; i < 5; i++) {
        call_at_random(&state, 5000);
        worker_do_and_end(call_and_check_not, NULL);
        check_calls();
    }
}

FRESH_TEST(rounding_is_estimated_from_a_sample_of_the_requests) {
    uint64_t state = 9;
    uint64_t wanted = 0;
    uint64_t got = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = 1 + engine_random(&state) % 2000;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        wanted += bytes;
        got += ps_size_classes[ps_size_class_of(bytes)].block_bytes;
    }
    struct ps_census census = engine_census();
    CHECK_CMP(census.rounding_bytes, >, (got - wanted) * 3 / 4);
    CHECK_CMP(census.rounding_bytes, <, (got - wanted) * 5 / 4);
}

UNIT_MAIN
