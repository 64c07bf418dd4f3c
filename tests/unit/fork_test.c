// marks: slow
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Real forks from a process with other threads: the child frees and allocates whatever the parent
 * had, and the slabs of threads that it lacks serve on.
 */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/os/lock.h"

#include <pthread.h>
#include <sched.h>

#define WORKERS 3
#define BLOCKS 2000

static struct worker workers[WORKERS];
static struct live_block blocks[WORKERS + 1][BLOCKS]; /* the last row is the main thread's */

static void allocate_row(void *row) {
    struct live_block *live = row;
    uint64_t state = 1000003 + (uint64_t)(live - blocks[0]);
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = engine_random(&state) % (i % 100 == 0 ? 200 * KIB : 1000);
        live_start(&live[i], ps_heap_alloc(bytes), bytes, i);
    }
}

static void free_row(void *row) { live_end_all(row, BLOCKS); }

static void start_workers(void) {
    for (size_t i = 0; i < WORKERS; i++) {
        worker_start(&workers[i]);
        worker_do(&workers[i], allocate_row, blocks[i]);
    }
    allocate_row(blocks[WORKERS]);
}

static void stop_workers(void) {
    for (size_t i = 0; i < WORKERS; i++) {
        worker_stop(&workers[i]);
    }
}

static void free_all_rows(void) {
    for (size_t i = 0; i <= WORKERS; i++) {
        free_row(blocks[i]);
    }
}

static void use_everything(void) {
    for (int round = 0; round < 3; round++) {
        free_all_rows();
        for (size_t i = 0; i <= WORKERS; i++) {
            allocate_row(blocks[i]);
        }
    }
    free_all_rows();
    ps_maintenance_trim(0);
}

FRESH_TEST(the_child_frees_and_allocates_blocks_of_all_threads) {
    start_workers();
    struct ps_census before = engine_census();
    CHECK_EQ(fresh_status(use_everything), 0);
    THEN("the parent has noticed nothing");
    struct ps_census after = engine_census();
    CHECK(memcmp(&after, &before, sizeof after) == 0);
    stop_workers();
    free_all_rows();
    check_live_blocks(0);
}

static void fork_again(void) {
    free_row(blocks[0]);
    CHECK_EQ(fresh_status(use_everything), 0);
    use_everything();
}

FRESH_TEST(a_child_may_fork_again) {
    start_workers();
    CHECK_EQ(fresh_status(fork_again), 0);
    stop_workers();
    free_all_rows();
    check_live_blocks(0);
}

/* ---- salvage ---- */

#define FULL_BLOCKS 20000
static struct live_block full[FULL_BLOCKS];

static void allocate_full(void *unused) {
    (void)unused;
    for (size_t i = 0; i < FULL_BLOCKS; i++) {
        live_start(&full[i], ps_heap_alloc(100), 100, i);
    }
}

static void reuse_dead_spans(void) {
    uint64_t slab_bytes = engine_census().small_slab_bytes;
    live_end_all(full, FULL_BLOCKS);
    struct ps_census census = engine_census();
    CHECK_CMP(census.small_slab_bytes, <, slab_bytes / 4); /* salvaged and drained */
    check_census(&census);
    for (int round = 0; round < 3; round++) {
        allocate_full(NULL);
        census = engine_census();
        CHECK_CMP(census.small_slab_bytes, <=, slab_bytes + 2 * PS_GRANULE_BYTES);
        live_end_all(full, FULL_BLOCKS);
    }
}

FRESH_TEST(spans_of_dead_threads_are_salvaged_when_their_blocks_come_back) {
    worker_start(&workers[0]);
    worker_do(&workers[0], allocate_full, NULL);
    CHECK_EQ(fresh_status(reuse_dead_spans), 0);
    worker_stop(&workers[0]);
    live_end_all(full, FULL_BLOCKS);
    check_live_blocks(0);
}

/* ---- forks at any moment ---- */

static uint32_t x_is_over;

static void *churn(void *argument) {
    uint64_t state = (uintptr_t)argument * 77 + 1;
    struct live_block own[50] = {0};
    while (!ps_load_relaxed(&x_is_over)) {
        struct live_block *live = &own[engine_random(&state) % 50];
        if (live->address != NULL) {
            live_end(live);
        } else {
            size_t bytes = engine_random_size(&state) % (300 * KIB);
            live_start(live, ps_heap_alloc(bytes), bytes, engine_random(&state));
        }
        if (engine_random(&state) % 64 == 0) {
            (void)engine_census();
        }
    }
    live_end_all(own, 50);
    return NULL;
}

static void allocate_and_free(void) {
    for (int round = 0; round < 3; round++) {
        allocate_row(blocks[0]);
        free_row(blocks[0]);
        free_row(blocks[WORKERS]);
    }
    ps_maintenance_trim(0);
    (void)engine_census();
}

FRESH_TEST(a_fork_among_busy_threads_leaves_a_working_child) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    }
    allocate_row(blocks[WORKERS]);
    for (int round = 0; round < 24 / FRESH_SLOWNESS; round++) {
        CHECK_EQ(fresh_status(allocate_and_free), 0);
        sched_yield();
    }
    ps_store_relaxed(&x_is_over, 1u);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    free_row(blocks[WORKERS]);
    check_live_blocks(0);
}

/* ---- handlers of the program that allocate ---- */

static struct live_block in_handler[3];

static void allocate_before(void) { live_start(&in_handler[0], ps_heap_alloc(90), 90, 1); }

static void allocate_in_parent(void) { live_start(&in_handler[1], ps_heap_alloc(9000), 9000, 2); }

static void allocate_in_child(void) {
    live_start(&in_handler[2], ps_heap_alloc(90000), 90000, 3);
    live_end(&in_handler[0]);
}

static void end_child(void) {
    CHECK(in_handler[2].address != NULL);
    live_end(&in_handler[2]);
    free_row(blocks[WORKERS]);
    check_live_blocks(0);
}

static void fork_with_handlers(void) {
    allocate_row(blocks[WORKERS]);
    CHECK_EQ(fresh_status(end_child), 0);
    live_end(&in_handler[0]);
    live_end(&in_handler[1]);
    free_row(blocks[WORKERS]);
    check_live_blocks(0);
}

FRESH_TEST(handlers_registered_after_ours_may_allocate) {
    ps_engine_start();
    pthread_atfork(allocate_before, allocate_in_parent, allocate_in_child);
    fork_with_handlers();
}

FRESH_TEST(handlers_registered_before_ours_may_allocate_while_all_locks_are_held) {
    pthread_atfork(allocate_before, allocate_in_parent, allocate_in_child);
    ps_engine_start();
    fork_with_handlers();
}

UNIT_MAIN
