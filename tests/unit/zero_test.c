// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Blocks of no size, where blocks are hardened: each has an address of its own until it is freed,
 * in any thread; reports name an address that is no live one.
 */
#include "pools/engine/harden/stray.h"
#include "tests/unit/engine.h"

#include <pthread.h>

#define RUN_BLOCKS (PS_GRANULE_BYTES / PS_ZERO_ALIGN)
#define BLOCKS (2 * RUN_BLOCKS + 10)
#define THREADS 4
#define ROUNDS 2000

static void *blocks[BLOCKS];

static void start(void) {
    engine_config.harden = 1;
    ps_engine_start();
}

static void take_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(0);
        REQUIRE(blocks[i] != NULL);
    }
}

static int compare(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (void *const *)a;
    uintptr_t y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

FRESH_TEST(each_live_block_has_an_address_of_its_own) {
    start();
    take_all();
    qsort(blocks, BLOCKS, sizeof blocks[0], compare);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK_EQ((uintptr_t)blocks[i] % PS_ZERO_ALIGN, 0);
        CHECK(ps_zero_is_live(blocks[i]));
        CHECK_EQ(ps_block_usable(blocks[i]), 0);
        CHECK(i == 0 || blocks[i] != blocks[i - 1]);
    }
}

FRESH_TEST(freed_blocks_are_taken_again_before_there_is_another_run) {
    start();
    take_all();
    uint64_t before = engine_census().small_slab_bytes + engine_census().cache_dirty_bytes;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            ps_heap_free(blocks[i]);
            CHECK(!ps_zero_is_live(blocks[i]));
        }
        take_all();
    }
    CHECK_EQ(engine_census().small_slab_bytes + engine_census().cache_dirty_bytes, before);
}

FRESH_TEST(a_free_of_a_dead_block_is_reported) {
    start();
    char *block = ps_heap_alloc(0);
    CHECK_ABORTS(ps_heap_free(block + 8), "poolshim: free of interior pointer 0x");
    ps_heap_free(block);
    CHECK_ABORTS(ps_heap_free(block), "poolshim: double free of 0x");
}

FRESH_TEST(a_block_of_no_size_may_get_one) {
    start();
    void *block = ps_heap_alloc(0);
    struct live_block live;
    live_start(&live, ps_block_resize(block, 100), 100, 1);
    CHECK(!ps_zero_is_live(block));
    live_end(&live);
}

static uint8_t x_is_taken[8 * RUN_BLOCKS]; /* by address, of eight runs */
static uintptr_t lowest;

static void *take_and_free(void *unused) {
    for (size_t round = 0; round < ROUNDS / FRESH_SLOWNESS; round++) {
        void *mine[16];
        for (size_t i = 0; i < 16; i++) {
            mine[i] = ps_heap_alloc(0);
            CHECK(mine[i] != NULL);
            size_t index = ((uintptr_t)mine[i] - lowest) / PS_ZERO_ALIGN;
            if (index < sizeof x_is_taken) {
                CHECK_EQ(__atomic_exchange_n(&x_is_taken[index], 1, __ATOMIC_RELAXED), 0);
            }
        }
        for (size_t i = 0; i < 16; i++) {
            size_t index = ((uintptr_t)mine[i] - lowest) / PS_ZERO_ALIGN;
            if (index < sizeof x_is_taken) {
                __atomic_store_n(&x_is_taken[index], 0, __ATOMIC_RELAXED);
            }
            ps_heap_free(mine[i]);
        }
    }
    return unused;
}

FRESH_TEST(two_threads_never_have_one_block) {
    start();
    take_all(); /* most of the third run remains allocated: threads meet in the same marks */
    lowest = (uintptr_t)blocks[BLOCKS - 1] & ~(uintptr_t)(PS_GRANULE_BYTES - 1);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, take_and_free, NULL) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

UNIT_MAIN
