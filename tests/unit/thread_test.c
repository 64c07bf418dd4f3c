// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Threads that end: what they leave is used or released, and later frees still work. */
#include "tests/unit/left_blocks.h"

FRESH_TEST(blocks_outlive_their_thread_and_their_memory_goes_back_when_freed) {
    for (int round = 0; round < 5; round++) {
        worker_do_and_end(leave_blocks, &any_size);
        check_live_blocks(LEFT);
        if (round % 2 == 0) {
            worker_do_and_end(free_left, NULL);
        } else {
            free_left(NULL);
        }
        check_live_blocks(0);
        ps_maintenance_trim(0);
        struct ps_census census = engine_census();
        CHECK_EQ(census.small_slab_bytes, 0);
    }
}

static void free_half_in_order(void *unused) {
    (void)unused;
    for (size_t i = 0; i < LEFT / 2; i++) {
        live_end(&left[i]);
    }
}

FRESH_TEST(a_thread_without_blocks_leaves_nothing) {
    for (int round = 0; round < 2; round++) { /* twice: the caches of two heaps have their arena */
        worker_do_and_end(leave_blocks, &any_size);
        worker_do_and_end(free_left, NULL);
    }
    struct ps_census before = engine_census();
    for (int round = 0; round < 20; round++) {
        worker_do_and_end(leave_blocks, &any_size);
        worker_do_and_end(free_left, NULL);
    }
    ps_maintenance_trim(0);
    struct ps_census after = engine_census();
    CHECK_EQ(after.small_slab_bytes, 0);
    CHECK_EQ(after.arena_bytes, before.arena_bytes);
}

FRESH_TEST(slabs_of_ended_threads_serve_before_fresh_memory) {
    worker_do_and_end(leave_blocks, &one_size);
    struct ps_census before = engine_census();
    void *block = ps_heap_alloc(one_size);
    CHECK_PTR_EQ(ps_slab_of(block), ps_slab_of(left[0].address));
    struct ps_census after = engine_census();
    CHECK_EQ(after.small_slab_bytes, before.small_slab_bytes);
    ps_heap_free(block);
    free_left(NULL);
    check_live_blocks(0);
}

FRESH_TEST(short_threads_that_leave_blocks_share_their_slabs) {
    enum { THREADS = 300 };
    static struct live_block kept[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        worker_do_and_end(allocate_one_more, &kept[i]);
    }
    check_live_blocks(THREADS);
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_slab_bytes, PS_GRANULE_BYTES);
    live_end_all(kept, THREADS);
    check_live_blocks(0);
}

FRESH_TEST(a_slab_that_many_threads_use_still_grants_blocks) {
    enum { THREADS = 100 };
    struct live_block one;
    for (size_t bytes = 8; bytes <= 40 * KIB; bytes *= 3) {
        one_size = bytes;
        for (size_t i = 0; i < THREADS; i++) { /* each takes a window and returns it */
            worker_do_and_end(allocate_one_more, &one);
            REQUIRE(one.address != NULL);
            live_end(&one);
        }
    }
    ps_maintenance_trim(0);
    check_live_blocks(0);
}

FRESH_TEST(a_slab_of_an_ended_thread_has_zero_fresh_blocks) {
    worker_do_and_end(leave_blocks, &one_size);
    uint64_t slab_bytes = engine_census().small_slab_bytes;
    for (size_t i = 0; i < 100; i++) {
        unsigned char *block = ps_block_zalloc(one_size);
        REQUIRE(block != NULL);
        CHECK(engine_is_zero(block, one_size));
    }
    CHECK_EQ(engine_census().small_slab_bytes, slab_bytes);
    free_left(NULL);
}

/* ---- after the end was noted, as in destructors of thread-local objects ---- */

static void use_heap_late(void *unused) {
    (void)unused;
    struct live_block early[3];
    for (size_t i = 0; i < 3; i++) {
        live_start(&early[i], ps_heap_alloc(200 << (8 * i)), 200 << (8 * i), i); /* to 13 MB */
    }
    ps_front_thread_ended();
    for (int round = 0; round < 3; round++) {
        leave_blocks(&any_size);
        struct live_block large;
        live_start(&large, ps_heap_alloc(200 * KIB), 200 * KIB, 1);
        CHECK(live_resize(&left[7], 5000, 8));
        CHECK(live_resize(&left[7], 300 * KIB, 9));
        CHECK(engine_is_zero(memset(ps_block_zalloc(100), 0, 1), 100));
        char *aligned = ps_block_alloc_aligned(100, 512);
        CHECK(aligned != NULL && (uintptr_t)aligned % 512 == 0);
        ps_heap_free(aligned);
        live_end(&large);
        if (round < 2) {
            free_left(NULL);
        }
    }
    live_end_all(early, 3);
    ps_front_thread_ended(); /* a second end changes nothing */
}

FRESH_TEST(calls_after_the_end_of_a_thread_work_and_leak_nothing) {
    ps_engine_start();
    worker_do_and_end(use_heap_late, NULL);
    worker_do_and_end(free_left, NULL);
    ps_maintenance_trim(0);
    struct ps_census before = engine_census();
    for (int round = 0; round < 10; round++) {
        worker_do_and_end(use_heap_late, NULL);
        free_left(NULL);
    }
    ps_maintenance_trim(0);
    struct ps_census after = engine_census();
    check_census(&after);
    CHECK_CMP(after.small_slab_bytes, <=, before.small_slab_bytes);
    CHECK_EQ(after.run_live_count + after.map_live_count, 0);
    CHECK_EQ(after.arena_bytes, before.arena_bytes);
}

static void give_up_first(void *unused) {
    (void)unused;
    ps_front_thread_ended(); /* a thread that never allocated */
    leave_blocks(&any_size);
}

FRESH_TEST(a_thread_may_end_before_it_ever_allocated) {
    worker_do_and_end(give_up_first, NULL);
    worker_do_and_end(free_left, NULL);
    struct ps_census census = engine_census();
    check_census(&census);
}

FRESH_TEST(blocks_freed_while_their_thread_ends_are_not_lost) {
    struct worker owner;
    struct worker freer;
    worker_start(&owner);
    worker_start(&freer);
    for (int round = 0; round < 10; round++) {
        worker_do(&owner, leave_blocks, &any_size);
        worker_do(&freer, free_half_in_order, NULL);
        worker_stop(&owner);
        worker_do(&freer, free_left, NULL);
        worker_stop(&freer);
        check_live_blocks(0);
        ps_maintenance_trim(0);
        CHECK_EQ(engine_census().small_slab_bytes, 0);
        worker_start(&owner);
        worker_start(&freer);
    }
    worker_stop(&owner);
    worker_stop(&freer);
}

UNIT_MAIN
