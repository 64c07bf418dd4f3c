// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * One thread allocates, resizes and frees at random; every block carries a pattern that is
 * compared before it goes, and in the end the census counts none.
 */
#include "tests/unit/engine.h"

#define SLOTS 1500
#define ROUNDS (60000 / FRESH_SLOWNESS)

static struct live_block blocks[SLOTS];
static uint64_t state = 0x2545f4914f6cdd1d;
static size_t live_count;

static void allocate(struct live_block *live) {
    size_t bytes = engine_random_size(&state);
    uint64_t seed = engine_random(&state);
    void *address;
    switch (engine_random(&state) % 8) {
    case 0:
        address = ps_block_zalloc(bytes);
        CHECK(address != NULL && engine_is_zero(address, bytes));
        break;
    case 1: {
        size_t align = (size_t)1 << (engine_random(&state) % 18);
        address = ps_block_alloc_aligned(bytes, align);
        CHECK_EQ((uintptr_t)address % align, 0);
        break;
    }
    default:
        address = ps_heap_alloc(bytes);
    }
    REQUIRE(address != NULL);
    live_start(live, address, bytes, seed);
    live_count++;
}

static void random_step(void) {
    struct live_block *live = &blocks[engine_random(&state) % SLOTS];
    uint64_t action = engine_random(&state) % 10;
    if (live->address == NULL) {
        allocate(live);
    } else if (action < 2) {
        size_t bytes = 1 + (action == 0 ? engine_random_size(&state)
                                        : live->bytes / 2 + engine_random(&state) % 100);
        CHECK(live_resize(live, bytes, engine_random(&state)));
    } else {
        live_end(live);
        live_count--;
    }
}

/* Some of the time walks through the slots, so that sequences and neighbours occur too. */
static void random_sweep(void) {
    size_t first = engine_random(&state) % SLOTS;
    size_t count = engine_random(&state) % (SLOTS - first);
    size_t bytes = engine_random(&state) % 2000;
    bool is_down = engine_random(&state) % 2 == 0;
    for (size_t i = 0; i < count; i++) {
        struct live_block *live = &blocks[is_down ? first + count - 1 - i : first + i];
        if (live->address != NULL) {
            live_end(live);
        } else {
            live_start(live, ps_heap_alloc(bytes), bytes, engine_random(&state));
        }
        live_count += live->address != NULL ? 1 : (size_t)-1;
    }
}

static void run_random(void) {
    for (int round = 0; round < ROUNDS; round++) {
        random_step();
        if (round % 1000 == 0) {
            fake_os_advance_ms(engine_random(&state) % 300);
            random_sweep();
            check_live_blocks(live_count);
        }
    }
    live_end_all(blocks, SLOTS);
    check_live_blocks(0);
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_slab_bytes + census.cache_dirty_bytes + census.map_cached_bytes, 0);
    check_live_blocks(0);
}

FRESH_TEST(blocks_of_all_sizes_keep_their_contents) { run_random(); }

FRESH_TEST(a_table_of_the_users_serves_as_well) {
    const uint32_t table[] = {16, 64, 112, 208, 1008, 2992, 20000};
    memcpy(engine_config.class_bytes, table, sizeof table);
    engine_config.class_count = sizeof table / sizeof table[0];
    engine_config.small_max_bytes = 20000;
    run_random();
}

FRESH_TEST(a_single_class_of_8_bytes_leaves_the_rest_to_page_runs) {
    engine_config.class_bytes[0] = 8;
    engine_config.class_count = 1;
    engine_config.small_max_bytes = 8;
    for (size_t i = 0; i < 700; i++) {
        live_start(&blocks[i], ps_heap_alloc(i * 7), i * 7, i);
        REQUIRE(blocks[i].address != NULL);
        if (i % 3 == 0) {
            live_end(&blocks[i]);
        }
    }
    check_live_blocks(466);
    live_end_all(blocks, SLOTS);
    check_live_blocks(0);
}

FRESH_TEST(small_mappings_and_no_cache_serve_as_well) {
    engine_config.mmap_min_bytes = 128 * KIB;
    engine_config.cache_max_bytes = 0;
    engine_config.purge_delay_ms = 0;
    run_random();
}

FRESH_TEST(every_block_of_every_class_is_usable_to_its_last_byte) {
    for (size_t bytes = 0; bytes <= 70 * KIB; bytes += bytes < 2 * KIB ? 1 : 509) {
        struct live_block pair[2];
        for (size_t i = 0; i < 2; i++) {
            void *address = ps_heap_alloc(bytes);
            REQUIRE(address != NULL);
            size_t usable = ps_block_usable(address);
            CHECK_CMP(usable, >=, bytes);
            live_start(&pair[i], address, usable, bytes + i);
        }
        CHECK(pair[0].address != pair[1].address);
        live_end_all(pair, 2);
    }
    check_live_blocks(0);
}

FRESH_TEST(too_much_is_refused_with_enomem_and_nothing_changes) {
    ps_heap_free(ps_heap_alloc(1));
    uint64_t mapped = fake_os_mapped_bytes();
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX,
                            (size_t)1 << 62};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        CHECK_PTR_EQ(ps_heap_alloc(sizes[i]), NULL);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK_PTR_EQ(ps_block_zalloc(sizes[i]), NULL);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK_PTR_EQ(ps_block_alloc_aligned(sizes[i], 4096), NULL);
        CHECK_EQ(errno, ENOMEM);
    }
    errno = 0;
    CHECK_PTR_EQ(ps_block_alloc_aligned(64, (size_t)1 << 62), NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(fake_os_mapped_bytes(), mapped);
    check_live_blocks(0);
}

UNIT_MAIN
