// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Threads that come and go beside fronts and windows: what they leave serves others, nothing is
 * lost or counted twice, and calls after the end of a thread work.
 */
#include "pools/engine/front/store.h"
#include "pools/engine/front/window.h"
#include "pools/engine/heap/front_path.h"
#include "tests/unit/left_blocks.h"

static void check_nothing_left(void) {
    check_live_blocks(0);
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_slab_bytes, 0);
    for (uint32_t i = 0; i < census.class_count; i++) {
        CHECK_EQ(ps_front_blocks(i) + ps_windows_blocks(i), 0);
    }
}

FRESH_TEST(blocks_outlive_their_thread_and_their_memory_goes_back_when_freed) {
    for (int round = 0; round < 6; round++) {
        worker_do_and_end(leave_blocks, &any_size);
        check_live_blocks(LEFT);
        if (round % 2 == 0) {
            worker_do_and_end(free_left, NULL);
        } else {
            free_left(NULL);
        }
        check_nothing_left();
    }
}

FRESH_TEST(a_thread_without_blocks_leaves_no_window) {
    ps_engine_start();
    worker_do_and_end(leave_blocks, &any_size);
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        CHECK_EQ(ps_windows_blocks(i), 0);
    }
    worker_do_and_end(free_left, NULL);
    check_nothing_left();
}

FRESH_TEST(the_records_of_windows_of_ended_threads_are_used_again) {
    ps_engine_start();
    worker_do_and_end(leave_blocks, &any_size);
    worker_do_and_end(free_left, NULL);
    const struct ps_windows *made = ps_windows_x_made;
    for (int round = 0; round < 50; round++) {
        worker_do_and_end(leave_blocks, &any_size);
        worker_do_and_end(free_left, NULL);
    }
    CHECK_PTR_EQ(ps_windows_x_made, made);
    check_nothing_left();
}

FRESH_TEST(short_threads_that_leave_blocks_share_their_slabs) {
    enum { THREADS = 300 };
    static struct live_block kept[THREADS];
    ps_engine_start();
    for (size_t i = 0; i < THREADS; i++) {
        worker_do_and_end(allocate_one_more, &kept[i]);
    }
    check_live_blocks(THREADS);
    CHECK_EQ(engine_census().small_slab_bytes, PS_GRANULE_BYTES);
    live_end_all(kept, THREADS);
    check_nothing_left();
}

FRESH_TEST(a_slab_that_serves_many_threads_still_grants_all_blocks) {
    static struct live_block all[10000];
    ps_engine_start();
    for (size_t bytes = 8; bytes <= 8 * KIB; bytes *= 4) {
        one_size = bytes;
        size_t capacity = ps_class_capacity(ps_size_class_of(bytes));
        struct live_block one;
        for (size_t i = 0; i < 50; i++) { /* each takes a window and returns it */
            worker_do_and_end(allocate_one_more, &one);
            live_end(&one);
        }
        ps_front_return_shared(true, true);
        ps_front_scan(true);
        live_start_all(all, capacity, bytes);
        CHECK_EQ(engine_census().classes[ps_size_class_of(bytes)].slabs, 1);
        live_end_all(all, capacity);
    }
    check_nothing_left();
}

FRESH_TEST(a_streak_of_an_ended_thread_returns) {
    static size_t bytes = 100;
    ps_engine_start();
    leave_blocks(&bytes);
    worker_do_and_end(free_left, NULL); /* in order */
    check_nothing_left();
}

FRESH_TEST(the_thread_that_started_the_engine_leaves_its_front) {
    worker_do_and_end(leave_blocks, &any_size);
    worker_do_and_end(free_left, NULL);
    CHECK(ps_front_table.x_own == NULL);
    check_nothing_left();
}

/* ---- after the end, as in destructors of thread-local objects ---- */

static void use_late(void *unused) {
    (void)unused;
    struct live_block early[3];
    for (size_t i = 0; i < 3; i++) {
        live_start(&early[i], ps_heap_alloc(200 << (8 * i)), 200 << (8 * i), i); /* to 13 MB */
    }
    ps_front_thread_ended();
    ps_front_thread_ended();
    for (int round = 0; round < 3; round++) {
        leave_blocks(&any_size);
        CHECK(live_resize(&left[7], 5000, 8));
        CHECK(live_resize(&left[7], 300 * KIB, 9));
        CHECK(engine_is_zero(memset(ps_block_zalloc(100), 0, 1), 100));
        char *aligned = ps_block_alloc_aligned(100, 512);
        CHECK(aligned != NULL && (uintptr_t)aligned % 512 == 0);
        ps_heap_free(aligned);
        CHECK_PTR_EQ(ps_front_thread.windows, &ps_windows_none);
        CHECK_EQ(ps_front_thread.streak_step, 0);
        if (round < 2) {
            free_left(NULL);
        }
    }
    live_end_all(early, 3);
    ps_front_thread_ended(); /* a second end changes nothing */
    ps_front_thread_ended();
}

FRESH_TEST(calls_after_the_end_of_a_thread_work_and_leak_nothing) {
    ps_engine_start();
    for (uint64_t round = 1; round <= 10; round++) {
        worker_do_and_end(use_late, NULL);
        check_live_blocks(LEFT + 3 * round); /* with three that are not freed */
        free_left(NULL);
        check_live_blocks(3 * round);
    }
    ps_maintenance_trim(0);
    CHECK_CMP(engine_census().small_slab_bytes, <=, PS_GRANULE_BYTES);
}

/* ---- at once ---- */

#define THREADS 4
#define ROUNDS (300 / FRESH_SLOWNESS)
#define BLOCKS_OF_ONE 500

static struct live_block *passed[THREADS]; /* to the next thread */

static void *start_and_pass(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    struct live_block *own = calloc(BLOCKS_OF_ONE, sizeof *own);
    uint64_t random = number + 1;
    for (size_t i = 0; i < BLOCKS_OF_ONE; i++) {
        size_t bytes = engine_random(&random) % 3000;
        live_start(&own[i], ps_heap_alloc(bytes), bytes, i);
    }
    struct live_block *others = ps_exchange_seq_cst(&passed[(number + 1) % THREADS], own);
    if (others != NULL) {
        live_end_all(others, BLOCKS_OF_ONE);
        free(others);
    }
    return NULL;
}

FRESH_TEST(threads_that_end_while_others_free_their_blocks_lose_none) {
    ps_engine_start();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++) {
            REQUIRE(pthread_create(&threads[i], NULL, start_and_pass, (void *)i) == 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        live_end_all(passed[i], BLOCKS_OF_ONE);
        free(passed[i]);
    }
    check_nothing_left();
}

UNIT_MAIN
