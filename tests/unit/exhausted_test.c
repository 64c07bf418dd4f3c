// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * What serves small requests when there is no memory for a slab: blocks that came back, granules of
 * regions, longer classes, medium blocks. Whatever serves one is a block as any other.
 */
#include "pools/engine/harden/promise.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#define BLOCKS 400000

static struct live_block blocks[BLOCKS];
static size_t block_count;

/* Uses up the memory of the system, except free memory in a region and in slabs. */
static void exhaust(size_t pinning_bytes) {
    void *pinning = ps_heap_alloc(pinning_bytes);
    REQUIRE(pinning != NULL);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    while (ps_heap_alloc(600 * KIB) != NULL) {
    }
}

/* Allocates until there is no more, and fills each block. Returns how many there are. */
static size_t fill(size_t bytes, size_t align) {
    size_t count = 0;
    for (;; count++) {
        errno = 0;
        void *address = ps_block_alloc_aligned(bytes, align);
        if (address == NULL) {
            CHECK_EQ(errno, ENOMEM);
            break;
        }
        CHECK_EQ((uintptr_t)address % align, 0);
        CHECK_EQ(errno, 0);
        REQUIRE(block_count < BLOCKS);
        live_start(&blocks[block_count], address, bytes, block_count);
        block_count++;
    }
    return count;
}

static void free_every(size_t from, size_t step) {
    for (size_t i = from; i < block_count; i += step) {
        if (blocks[i].address != NULL) {
            live_end(&blocks[i]);
        }
    }
}

static void free_odd_ones(void *unused) {
    (void)unused;
    free_every(1, 2);
    ps_maintenance_flush();
}

static void free_rest(void) {
    free_every(0, 1);
    block_count = 0;
    CHECK_EQ(fake_os_breaches(), 0);
}

static void check_nothing_left(void) {
    static const size_t sizes[] = {8, 64, 1000, 4096, 8192, 16384};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_PTR_EQ(ps_heap_alloc(sizes[i]), NULL);
    }
}

FRESH_TEST(nothing_longer_is_left_when_a_small_request_fails) {
    exhaust(40000);
    CHECK_CMP(fill(4104, 16), >, 200); /* of 240 pages that a region has left */
    (void)fill(8, 8);
    check_nothing_left();
    free_rest();
}

FRESH_TEST(granules_of_a_region_serve_as_spans) {
    exhaust(40000);
    WHEN("blocks of 8 bytes fill the rest");
    CHECK_CMP(fill(8, 8), >, 13 * 8000); /* of 8191 in a granule, 14 at least */
    check_nothing_left();
    struct ps_census census = engine_census();
    check_census(&census);
    WHEN("they return");
    free_rest();
    ps_maintenance_trim(0);
    THEN("the region has its granules again");
    census = engine_census();
    check_census(&census);
    CHECK(ps_heap_alloc(300 * KIB) != NULL);
    CHECK(ps_heap_alloc(300 * KIB) != NULL);
    CHECK(ps_heap_alloc(300 * KIB) != NULL);
}

FRESH_TEST(longer_blocks_are_as_aligned_as_requested) {
    exhaust(40000);
    for (size_t align = 4096; align >= 16; align /= 2) {
        for (size_t i = 0; i < 2; i++) {
            (void)fill(i == 0 ? align : 3 * align, align);
            free_every(0, 2);
            (void)fill(align == 4096 ? 100 : align + 24, 16);
            free_every(1, 3);
        }
    }
    free_rest();
}

FRESH_TEST(a_block_that_came_back_serves_the_next_request) {
    exhaust(40000);
    size_t count = fill(100, 16);
    for (size_t i = 0; i < 200; i++) {
        struct live_block *one = &blocks[i * 7919 % count];
        live_end(one);
        live_start(one, ps_heap_alloc(100), 100, i);
        REQUIRE(one->address != NULL);
    }
    CHECK_PTR_EQ(ps_heap_alloc(100), NULL);
    free_rest();
}

FRESH_TEST(blocks_that_another_thread_frees_serve_again) {
    exhaust(40000);
    size_t count = fill(100, 16);
    worker_do_and_end(free_odd_ones, NULL);
    CHECK_CMP(fill(100, 16), >=, count / 2);
    free_rest();
}

FRESH_TEST(one_block_that_another_thread_frees_serves_again) {
    exhaust(40000);
    size_t count = fill(100, 16);
    block_count = 2; /* of a slab that was full */
    worker_do_and_end(free_odd_ones, NULL);
    CHECK(ps_heap_alloc(100) != NULL);
    CHECK_PTR_EQ(ps_heap_alloc(100), NULL);
    blocks[1].address = NULL;
    block_count = count;
    free_rest();
}

FRESH_TEST(longer_blocks_are_resized_in_place_or_moved) {
    exhaust(40000);
    (void)fill(8, 8);
    struct live_block *last = &blocks[--block_count];
    size_t usable = ps_block_usable(last->address);
    CHECK_CMP(usable, >=, 4096); /* a page of the first granule of the region */
    const void *address = last->address;
    CHECK(live_resize(last, usable, 7));
    CHECK_PTR_EQ(last->address, address);
    CHECK(!live_resize(last, usable + 5000, 8));
    free_rest();
    CHECK(live_resize(last, usable + 5000, 8));
    CHECK(live_resize(last, 20, 9));
    live_end(last);
}

static void fill_at_level(uint32_t level, bool is_recorded) {
    engine_config.harden = level;
    engine_config.record = is_recorded;
    void *first = ps_heap_alloc(40000);
    CHECK(first != NULL);
    exhaust(40000);
    (void)fill(4104, 16);
    (void)fill(8, 8);
    CHECK_PTR_EQ(ps_heap_alloc(16 * KIB), NULL);
    CHECK_PTR_EQ(ps_heap_alloc(8 * KIB), NULL);
    free_every(0, 2);
    (void)fill(64, 64);
    (void)fill(24, 16);
    free_rest();
}

static void fill_at_level_1(void) { fill_at_level(1, false); }
static void fill_at_level_2(void) { fill_at_level(2, false); }
static void fill_at_level_3(void) { fill_at_level(3, false); }
static void fill_recorded(void) { fill_at_level(0, true); }

TEST(each_mode_leaves_nothing_longer) {
    fresh_run(fill_at_level_1);
    fresh_run(fill_at_level_2);
    fresh_run(fill_at_level_3);
    fresh_run(fill_recorded);
}

/* A block that is longer than its request is no wrong size. */
static void check_sizes_at_level(uint32_t level) {
    engine_config.harden = level;
    struct live_block shrunk = {0};
    live_start(&shrunk, ps_heap_alloc(4000), 4000, 1);
    exhaust(40000);
    (void)fill(4104, 16);
    (void)fill(8, 8);
    CHECK_PTR_EQ(ps_heap_alloc(100), NULL);
    CHECK(live_resize(&shrunk, 100, 2)); /* there is no shorter one */
    ps_block_check_size(shrunk.address, 100, 8);
    for (size_t i = 0; i < block_count; i++) {
        ps_block_check_size(blocks[i].address, blocks[i].bytes, 8);
    }
    CHECK_ABORTS(ps_block_check_size(shrunk.address, 20000, 8), "wrong size");
    live_end(&shrunk);
    free_rest();
}

static void check_sizes_at_level_1(void) { check_sizes_at_level(1); }
static void check_sizes_at_level_2(void) { check_sizes_at_level(2); }

TEST(a_longer_block_is_freed_by_the_size_that_was_requested) {
    fresh_run(check_sizes_at_level_1);
    fresh_run(check_sizes_at_level_2);
}

/* ---- at random, from several threads ---- */

#define THREADS 3
#define SLOTS 3000
#define STEPS 6000

static struct live_block slots[THREADS][SLOTS];

static void *use_randomly(void *argument) {
    struct live_block *own = argument;
    uint64_t state = 77 + (uint64_t)(own - slots[0]);
    for (size_t step = 0; step < STEPS / FRESH_SLOWNESS; step++) {
        struct live_block *one = &own[engine_random(&state) % SLOTS];
        /* At least one: blocks of no bytes have runs that no census counts (harden/stray.h). */
        size_t bytes = 1 + engine_random(&state) % (engine_random(&state) % 9000 + 1);
        uint64_t kind = engine_random(&state) % 8;
        if (one->address == NULL) {
            live_start(one, kind == 0 ? ps_block_zalloc(bytes) : ps_heap_alloc(bytes), bytes, step);
        } else if (kind < 2) {
            (void)live_resize(one, bytes + 1, step);
        } else if (kind < 6) {
            live_end(one);
        }
    }
    return NULL;
}

static void *end_all(void *argument) {
    live_end_all(argument, SLOTS);
    return NULL;
}

static void run_threads(void *(*job)(void *), size_t shift) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, job, slots[(i + shift) % THREADS]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void use_at_level(uint32_t level, bool is_recorded) {
    engine_config.harden = level;
    engine_config.record = is_recorded;
    void *first = ps_heap_alloc(40000);
    CHECK(first != NULL);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    void *large = ps_heap_alloc(1500 * KIB);
    for (int round = 0; round < 4; round++) {
        run_threads(use_randomly, 0);
        run_threads(use_randomly, 1); /* other threads free and resize the blocks */
        struct ps_census census = engine_census();
        check_census(&census);
    }
    ps_heap_free(large);
    run_threads(end_all, 2);
    CHECK_EQ(fake_os_breaches(), 0);
}

static void use_at_level_0(void) { use_at_level(0, false); }
static void use_at_level_1(void) { use_at_level(1, false); }
static void use_at_level_2(void) { use_at_level(2, false); }
static void use_recorded(void) { use_at_level(0, true); }

TEST(blocks_stay_whole_while_threads_share_the_last_memory) {
    fresh_run(use_at_level_0);
    fresh_run(use_at_level_1);
    fresh_run(use_at_level_2);
    fresh_run(use_recorded);
}

UNIT_MAIN
