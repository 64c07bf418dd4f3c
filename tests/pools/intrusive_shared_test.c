/* SPDX-License-Identifier: MIT */
/*
 * Intrusive pools whose items other threads drop, while the pool lives and after it; and both kinds
 * of pools with PS_DEBUG.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <poolshim/intrusive.h>
#include <pthread.h>

/* Threads that drop what the main thread hands them, in boxes of one item. */
enum { BOX_COUNT = 64, THREAD_COUNT = 3 };
static struct ps_intrusive_item *x_boxes[BOX_COUNT];
static int x_is_over;

static void *drop_from_boxes(void *unused) {
    (void)unused;
    for (size_t idle = 0; idle < 2;) {
        /* acquire: pairs with the main thread's release; all boxes are seen once more after it. */
        idle += __atomic_load_n(&x_is_over, __ATOMIC_ACQUIRE) != 0;
        for (size_t at = 0; at < BOX_COUNT; at++) {
            /* acquire: the item's contents. */
            struct ps_intrusive_item *item =
                __atomic_exchange_n(&x_boxes[at], NULL, __ATOMIC_ACQUIRE);
            if (item != NULL) {
                CHECK_EQ(((char *)item)[40], (char)0x77);
                ((char *)item)[40] = 0x11;
                ps_intrusive_take_shared(item);
                ps_intrusive_drop_shared(item);
                ps_intrusive_drop_shared(item);
            }
        }
    }
    return NULL;
}

static void run_shared(size_t rounds, size_t max_items) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_intrusive_options options = {
        .chunks = {.source = &source.source}, .bytes = 64, .max_items = max_items, .is_shared = 1};
    pthread_t threads[THREAD_COUNT];
    struct ps_intrusive pool;
    REQUIRE(ps_intrusive_init(&pool, &options));
    x_is_over = 0;
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, drop_from_boxes, NULL) == 0);
    }
    for (size_t round = 0; round < rounds; round++) {
        struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
        if (item == NULL) {
            CHECK(max_items != 0);
            continue;
        }
        ((char *)item)[40] = 0x77;
        /* acq_rel: hands the item over, and takes over the one there. */
        item = __atomic_exchange_n(&x_boxes[round % BOX_COUNT], item, __ATOMIC_ACQ_REL);
        if (item != NULL) {
            ps_intrusive_drop_shared(item);
        }
        if (round % 1000 == 999) {
            ps_intrusive_reset(&pool);
        }
    }
    struct ps_intrusive_stats stats;
    ps_intrusive_stats(&pool, &stats);
    CHECK_CMP(stats.live_items, <=, BOX_COUNT + THREAD_COUNT);
    ps_intrusive_destroy(&pool);
    __atomic_store_n(&x_is_over, 1, __ATOMIC_RELEASE); /* release: see drop_from_boxes */
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_EQ(source.live_bytes, 0);
}

TEST(shared_items_come_home_from_any_thread) {
    run_shared(60000 / FRESH_SLOWNESS, 0);
    run_shared(30000 / FRESH_SLOWNESS, 50);
}

TEST(shared_pools_reuse_what_came_home) {
    NEEDS_CHUNKS();
    struct ps_intrusive_options options = {.bytes = 64, .is_shared = 1};
    struct ps_intrusive pool;
    REQUIRE(ps_intrusive_init(&pool, &options));
    struct ps_intrusive_item *first = ps_intrusive_alloc(&pool);
    ps_intrusive_drop_shared(first);
    for (size_t i = 0; i < 1000; i++) {
        struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
        CHECK_PTR_EQ(item, first);
        ps_intrusive_drop_shared(item);
    }
    CHECK(ps_intrusive_check(&pool));
    struct ps_intrusive_stats stats;
    ps_intrusive_stats(&pool, &stats);
    CHECK_EQ(stats.touched_items, 1);
    CHECK_EQ(stats.live_items, 0);
    ps_intrusive_destroy(&pool);
}

static void note_end(struct ps_intrusive_item *item, void *context) {
    CHECK_EQ(item->count, 0);
    ++*(size_t *)context;
}

static void in_malloc_mode(uint32_t is_shared) {
    size_t ended = 0;
    struct ps_intrusive_options options = {
        .bytes = 64, .max_items = 3, .is_shared = is_shared, .end = note_end, .context = &ended};
    struct ps_intrusive pool;
    REQUIRE(ps_intrusive_init(&pool, &options));
    struct ps_intrusive_item *items[3];
    for (size_t i = 0; i < 3; i++) {
        items[i] = ps_intrusive_alloc(&pool);
        REQUIRE(items[i] != NULL);
        items[i]->is_built = 1;
    }
    CHECK(ps_intrusive_alloc(&pool) == NULL);
    CHECK(ps_intrusive_is_exhausted(&pool));
    void (*drop)(struct ps_intrusive_item *) =
        is_shared != 0 ? ps_intrusive_drop_shared : ps_intrusive_drop;
    drop(items[0]);
    CHECK_EQ(ended, 1);
    CHECK((items[0] = ps_intrusive_alloc(&pool)) != NULL);
    CHECK_EQ(items[0]->is_built, 0);
    ps_intrusive_destroy(&pool);
    for (size_t i = 0; i < 3; i++) {
        drop(items[i]);
    }
    CHECK_EQ(ended, 3);
}

DEBUG_TEST(with_malloc_each_item_is_a_block, "malloc") { in_malloc_mode(0); }
DEBUG_TEST(with_malloc_shared_items_are_blocks_too, "malloc") { in_malloc_mode(1); }

DEBUG_ALL(checked_pools_behave_the_same, "check")

UNIT_MAIN
