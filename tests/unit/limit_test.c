// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The soft limit of resident memory, on a system that reports resident pages. */
#include "pools/engine/heap/limit.h"

#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/engine.h"

#include <pthread.h>

ENGINE_NO_SURPLUS

#define LIMIT_BYTES (800 * MIB)
#define NEAR_BYTES (700 * MIB)
#define CLOSE_BYTES (750 * MIB)
#define BLOCKS 64
#define STEPS 20000

static void set_limit(size_t bytes, uint32_t percent) {
    engine_config.limit = (struct ps_limit_setting){bytes, percent};
    ps_heap_free(ps_heap_alloc(1));
}

static void look_after(uint64_t ms) {
    fake_os_advance_ms(ms);
    ps_limit_tick(ps_os_now_ms());
}

static void look_at(uint64_t rss_bytes) {
    fake_os_set_rss_bytes(rss_bytes);
    look_after(1000);
}

/* Slow calls, with a tick after every few. */
static void work(size_t calls) {
    for (size_t i = 0; i < calls; i++) {
        ps_heap_free(ps_heap_alloc(600 * KIB));
    }
}

FRESH_TEST(without_a_limit_nothing_is_read) {
    set_limit(0, 0);
    CHECK(!ps_limit_is_on());
    for (int i = 0; i < 100; i++) {
        fake_os_advance_ms(100);
        work(10);
    }
    CHECK_EQ(fake_os_rss_readings(), 0);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    CHECK_EQ(ps_limit_x_counts.bytes, 0);
    CHECK_STR_EQ(ps_limit_x_counts.source, "none");
}

FRESH_TEST(pressure_rises_and_falls_with_what_is_in_memory) {
    set_limit(LIMIT_BYTES, 0);
    static const struct {
        uint64_t rss_bytes;
        enum ps_pressure pressure;
        uint64_t near_count;
    } looks[] = {
        {100 * MIB, PS_PRESSURE_NONE, 0},
        {NEAR_BYTES - 1, PS_PRESSURE_NONE, 0},
        {NEAR_BYTES, PS_PRESSURE_NEAR, 1},
        {CLOSE_BYTES - 1, PS_PRESSURE_NEAR, 1},
        {CLOSE_BYTES, PS_PRESSURE_CLOSE, 1},
        {LIMIT_BYTES - 1, PS_PRESSURE_CLOSE, 1},
        {LIMIT_BYTES, PS_PRESSURE_OVER, 1},
        {UINT64_MAX / 2, PS_PRESSURE_OVER, 1},
        {NEAR_BYTES - 1, PS_PRESSURE_NONE, 1},
        {3 * LIMIT_BYTES, PS_PRESSURE_OVER, 2},
        {0 /* cannot be read */, PS_PRESSURE_OVER, 2},
    };
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        look_at(looks[i].rss_bytes);
        CHECK_EQ(ps_retention_pressure(), looks[i].pressure);
        CHECK_EQ(ps_limit_x_counts.near_count, looks[i].near_count);
    }
    CHECK_EQ(ps_limit_x_counts.bytes, LIMIT_BYTES);
    CHECK_STR_EQ(ps_limit_x_counts.source, "setting");
}

FRESH_TEST(looks_are_rare_far_from_the_limit_and_never_more_than_one_in_4_ms) {
    static const struct {
        uint64_t rss_bytes;
        uint64_t most; /* in 1000 ms */
        uint64_t least;
    } cases[] = {{100 * MIB, 30, 20}, {NEAR_BYTES - 200 * MIB, 90, 70}, {LIMIT_BYTES, 250, 240}};
    set_limit(LIMIT_BYTES, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        look_at(cases[i].rss_bytes);
        uint64_t before = fake_os_rss_readings();
        for (int ms = 0; ms < 1000; ms++) {
            look_after(1);
        }
        CHECK_CMP(fake_os_rss_readings() - before, <=, cases[i].most);
        CHECK_CMP(fake_os_rss_readings() - before, >=, cases[i].least);
    }
}

FRESH_TEST(per_cent_is_of_the_machine_where_no_group_has_less) {
    fake_os_set_memory_bytes(64 * MIB);
    set_limit(0, 50);
    look_at(1 * MIB);
    CHECK_EQ(ps_limit_x_counts.bytes, 32 * MIB);
    CHECK_STR_EQ(ps_limit_x_counts.source, "machine");
    WHEN("the machine gets more memory");
    fake_os_set_memory_bytes(128 * MIB);
    look_after(50000);
    CHECK_EQ(ps_limit_x_counts.bytes, 32 * MIB);
    look_after(10000);
    THEN("the limit follows within a minute");
    CHECK_EQ(ps_limit_x_counts.bytes, 64 * MIB);
}

static uint64_t free_bytes(void) {
    struct ps_census census = engine_census();
    return census.cache_dirty_bytes + census.map_cached_bytes;
}

/* Leaves so much free memory. */
static void leave_free(size_t bytes) {
    static void *blocks[BLOCKS];
    size_t each = bytes / BLOCKS;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(each);
        REQUIRE(blocks[i] != NULL);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_CMP(free_bytes(), >=, bytes);
}

FRESH_TEST(near_the_limit_what_is_free_goes_at_once) {
    set_limit(LIMIT_BYTES, 0);
    look_at(100 * MIB);
    leave_free(64 * MIB);
    work(50);
    CHECK_CMP(free_bytes(), >=, 64 * MIB);
    look_at(NEAR_BYTES);
    uint64_t now_ms = ps_os_now_ms();
    work(200);
    CHECK_EQ(ps_os_now_ms(), now_ms);
    CHECK_CMP(free_bytes(), <=, 4 * MIB);
    struct ps_census census = engine_census();
    CHECK_CMP(census.limit_purged_bytes, >=, 60 * MIB);
    CHECK_CMP(census.limit_purged_bytes, <=, census.purged_bytes);
}

FRESH_TEST(freed_mappings_are_not_kept_near_the_limit) {
    set_limit(LIMIT_BYTES, 0);
    look_at(100 * MIB);
    ps_heap_free(ps_heap_alloc(16 * MIB));
    CHECK_CMP(engine_census().map_cached_bytes, >=, 16 * MIB);
    look_at(NEAR_BYTES);
    work(50);
    CHECK_EQ(engine_census().map_cached_bytes, 0);
    ps_heap_free(ps_heap_alloc(16 * MIB));
    CHECK_EQ(engine_census().map_cached_bytes, 0);
}

FRESH_TEST(a_large_block_that_would_come_near_has_room_made_for_it) {
    set_limit(LIMIT_BYTES, 0);
    look_at(100 * MIB);
    leave_free(64 * MIB);
    GIVEN("room for 20 MiB more");
    fake_os_set_rss_bytes(NEAR_BYTES - 20 * MIB);
    look_after(1000);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    uint64_t purged = fake_os_purged_bytes();
    ps_limit_make_room(19 * MIB);
    CHECK_EQ(fake_os_purged_bytes(), purged);
    WHEN("32 MiB are to come");
    ps_limit_make_room(32 * MIB);
    THEN("about the missing amount is released, and not all");
    purged = fake_os_purged_bytes() - purged;
    CHECK_CMP(purged, >=, 12 * MIB);
    CHECK_CMP(purged, <=, 40 * MIB);
    CHECK_CMP(ps_retention_pressure(), >=, PS_PRESSURE_NEAR);
    WHEN("they were not touched");
    look_after(4);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
}

FRESH_TEST(growth_in_small_steps_is_counted) {
    set_limit(LIMIT_BYTES, 0);
    look_at(NEAR_BYTES - 4 * MIB);
    char *block = ps_heap_alloc(1 * MIB);
    uint64_t before = fake_os_rss_readings();
    for (size_t bytes = 1 * MIB; bytes < LIMIT_BYTES; bytes += 64 * KIB) {
        block = ps_block_resize(block, bytes);
        REQUIRE(block != NULL);
    }
    CHECK_CMP(fake_os_rss_readings(), >, before + 3);
    ps_heap_free(block);
}

FRESH_TEST(what_is_in_memory_serves_a_large_block_first) {
    set_limit(LIMIT_BYTES, 0);
    look_at(100 * MIB);
    char *block = ps_heap_alloc(3 * MIB);
    char *mapping = ps_heap_alloc(16 * MIB);
    REQUIRE(block != NULL && mapping != NULL);
    ps_heap_free(block);
    ps_heap_free(mapping);
    fake_os_set_rss_bytes(NEAR_BYTES - 1 * MIB);
    look_after(1);
    uint64_t purged = fake_os_purged_bytes();
    uint64_t released = fake_os_calls(FAKE_OS_RELEASE);
    CHECK_PTR_EQ(ps_heap_alloc(3 * MIB), block);
    CHECK_PTR_EQ(ps_heap_alloc(16 * MIB), mapping);
    CHECK_EQ(fake_os_purged_bytes(), purged);
    CHECK_EQ(fake_os_calls(FAKE_OS_RELEASE), released);
}

/* Whether the last of many small blocks lies in a huge page. */
static bool is_dense(void) {
    char *block = NULL;
    for (size_t bytes = 0; bytes < 8 * MIB; bytes += 1024) {
        block = ps_heap_alloc(1024);
        REQUIRE(block != NULL);
    }
    return ps_page_map_slot(block)->run.is_huge;
}

FRESH_TEST(near_the_limit_spans_ask_for_no_huge_pages) {
    set_limit(LIMIT_BYTES, 0);
    look_at(NEAR_BYTES);
    CHECK(!is_dense());
    look_at(100 * MIB);
    CHECK(is_dense());
}

static void use_small_blocks(void) {
    static void *blocks[4096];
    for (size_t i = 0; i < 4096; i++) {
        blocks[i] = ps_heap_alloc(200);
        REQUIRE(blocks[i] != NULL);
    }
    for (size_t i = 0; i < 4096; i++) {
        ps_heap_free(blocks[i]);
    }
}

FRESH_TEST(near_the_limit_empty_slabs_are_not_kept) {
    set_limit(LIMIT_BYTES, 0);
    look_at(100 * MIB);
    use_small_blocks();
    CHECK_CMP(engine_census().small_slab_bytes, >, 2 * PS_GRANULE_BYTES);
    look_at(NEAR_BYTES);
    use_small_blocks();
    fake_os_advance_ms(PS_RETENTION_SCAN_MS);
    work(10);
    CHECK_CMP(engine_census().small_slab_bytes, <=, 2 * PS_GRANULE_BYTES); /* of windows */
}

FRESH_TEST(beyond_the_limit_no_call_fails_and_nothing_is_lost) {
    static struct live_block blocks[BLOCKS * 8];
    uint64_t random = 1;
    set_limit(LIMIT_BYTES, 0);
    for (size_t step = 0; step < STEPS / FRESH_SLOWNESS; step++) {
        struct live_block *live = &blocks[engine_random(&random) % (BLOCKS * 8)];
        if (step % 1000 == 0) {
            look_at(engine_random(&random) % (3 * LIMIT_BYTES));
        }
        fake_os_advance_ms(engine_random(&random) % 2);
        size_t bytes = engine_random_size(&random);
        if (live->address == NULL) {
            live_start(live, ps_heap_alloc(bytes), bytes, random);
        } else if (engine_random(&random) % 4 == 0) {
            CHECK(live_resize(live, bytes, random));
        } else {
            live_end(live);
        }
    }
    live_end_all(blocks, BLOCKS * 8);
    check_live_blocks(0);
}

static void *use_heap(void *argument) {
    struct live_block blocks[32] = {{0}};
    uint64_t random = (uintptr_t)argument;
    for (size_t step = 0; step < STEPS / FRESH_SLOWNESS; step++) {
        struct live_block *live = &blocks[engine_random(&random) % 32];
        size_t bytes = engine_random_size(&random);
        if (live->address != NULL) {
            live_end(live);
        } else {
            live_start(live, ps_heap_alloc(bytes), bytes, random);
        }
    }
    live_end_all(blocks, 32);
    return NULL;
}

FRESH_TEST(threads_compare_while_memory_comes_and_goes) {
    pthread_t threads[3];
    set_limit(LIMIT_BYTES, 0);
    for (uintptr_t i = 0; i < 3; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, use_heap, (void *)(i + 1)) == 0);
    }
    for (size_t step = 0; step < 200; step++) {
        fake_os_set_rss_bytes(step % 2 == 0 ? 2 * LIMIT_BYTES : MIB);
        fake_os_advance_ms(5);
        work(20);
    }
    for (size_t i = 0; i < 3; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_CMP(ps_limit_x_counts.near_count, >, 0);
    look_at(MIB);
    check_live_blocks(0);
}

FRESH_TEST(a_limit_may_be_set_changed_and_ended_at_any_time) {
    set_limit(0, 0);
    look_at(LIMIT_BYTES);
    ps_limit_set(&(struct ps_limit_setting){.bytes = LIMIT_BYTES});
    CHECK(ps_limit_is_on());
    ps_limit_tick(ps_os_now_ms());
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_OVER);
    CHECK_EQ(ps_limit_x_counts.bytes, LIMIT_BYTES);
    ps_limit_set(&(struct ps_limit_setting){.bytes = 4 * LIMIT_BYTES});
    ps_limit_tick(ps_os_now_ms());
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    CHECK_EQ(ps_limit_x_counts.bytes, 4 * LIMIT_BYTES);
    ps_limit_set(&(struct ps_limit_setting){.bytes = LIMIT_BYTES});
    ps_limit_tick(ps_os_now_ms());
    ps_limit_set(&(struct ps_limit_setting){0});
    CHECK(!ps_limit_is_on());
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    GIVEN("a thread that has asked before the limit ended");
    look_at(LIMIT_BYTES);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    CHECK_EQ(ps_limit_x_counts.bytes, 0);
    CHECK_STR_EQ(ps_limit_x_counts.source, "none");
}

/* Writes the setting as another process does: record/layout.h. */
static void write_setting(uint64_t word) {
    ps_store_relaxed(&ps_limit_words.x_setting, word); /* relaxed: by a system call in truth */
}

FRESH_TEST(a_limit_may_be_written_from_outside) {
    set_limit(0, 0);
    work(100);
    write_setting(LIMIT_BYTES);
    look_at(LIMIT_BYTES);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_OVER);
    CHECK_EQ(ps_limit_x_counts.bytes, LIMIT_BYTES);
    write_setting(4 * LIMIT_BYTES);
    look_at(LIMIT_BYTES);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    CHECK_EQ(ps_limit_x_counts.bytes, 4 * LIMIT_BYTES);
    write_setting(PS_LIMIT_PERCENT | 200); /* at most all there is */
    look_at(LIMIT_BYTES);
    CHECK_CMP(ps_limit_x_counts.bytes, >, 0);
    CHECK_CMP(ps_limit_x_counts.bytes, <=, ps_os_memory_bytes());
    write_setting(LIMIT_BYTES);
    look_at(LIMIT_BYTES);
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_OVER);
    write_setting(0);
    CHECK(ps_limit_is_on());
    look_at(LIMIT_BYTES);
    CHECK(!ps_limit_is_on());
    CHECK_EQ(ps_retention_pressure(), PS_PRESSURE_NONE);
    CHECK_EQ(ps_limit_x_counts.bytes, 0);
    CHECK_STR_EQ(ps_limit_x_counts.source, "none");
}

FRESH_TEST(the_child_of_a_fork_looks_the_limit_up_again) {
    fake_os_set_memory_bytes(64 * MIB);
    set_limit(0, 50);
    look_at(1 * MIB);
    fake_os_set_memory_bytes(128 * MIB);
    pid_t child = fork();
    REQUIRE(child >= 0);
    ps_limit_tick(ps_os_now_ms());
    CHECK_EQ(ps_limit_x_counts.bytes, child == 0 ? 64 * MIB : 32 * MIB);
    unit_join_child(child);
}

UNIT_MAIN
