// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's work in the engine (fork_step.h): the child must
 * find the page cache consistent and be able to use everything, at whichever instruction of a
 * locked section that thread is.
 */
#include "tests/unit/engine.h"
#include "tests/unit/fork_step_check.h"
#include "tests/unit/worker.h"

#include "pools/engine/front/store.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"

static void page_runs(void) {
    void *a = ps_heap_alloc(600000);
    void *b = ps_heap_alloc(900000);
    void *c = ps_heap_alloc(700000);
    ps_heap_free(b); /* no free neighbour */
    ps_heap_free(a); /* one after it */
    b = ps_block_alloc_aligned(600000, 1 << 19);
    ps_heap_free(c);
    ps_heap_free(b); /* both sides */
    a = ps_block_resize(ps_heap_alloc(900000), 600000);
    ps_heap_free(ps_block_resize(a, 800000)); /* where it is */
}

FRESH_TEST(page_runs_come_and_go) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(NULL, page_runs, use_everything, 131);
}

/* A dirty run between two clean ones. */
static void leave_short_runs(void) {
    void *rows[5];
    for (size_t i = 0; i < 5; i++) {
        rows[i] = ps_heap_alloc(600000);
    }
    ps_heap_free(rows[1]);
    ps_heap_free(rows[3]);
    ps_maintenance_trim(0);
    ps_heap_free(rows[2]);
}

static void lengthened_run(void) { ps_heap_free(ps_heap_alloc(1700000)); }

FRESH_TEST(a_dirty_run_is_lengthened) {
    busy_granules_max = 26;
    ps_engine_start();
    fork_at_each_step(leave_short_runs, lengthened_run, use_everything, 13);
}

static void whole_slabs(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        before[i].address = NULL;
    }
    void *blocks[40];
    for (size_t i = 0; i < 40; i++) {
        blocks[i] = ps_heap_alloc(3000);
    }
    for (size_t i = 0; i < 40; i++) {
        ps_heap_free(blocks[i]);
    }
}

FRESH_TEST(a_thread_takes_its_first_slabs_and_returns_them) {
    busy_granules_max = 4;
    ps_engine_start();
    fork_at_each_step(NULL, whole_slabs, use_everything, 43);
}

static void allocate_before(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = i % 3 == 0 ? 40 : i % 3 == 1 ? 3000 : 20000;
        live_start(&before[i], ps_heap_alloc(bytes), bytes, i);
    }
}

static struct worker worker;

static void leave_blocks(void) {
    worker_start(&worker);
    worker_do(&worker, allocate_before, NULL);
    worker_stop(&worker);
}

static void use_left_slabs(void) {
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = ps_heap_alloc(i % 3 == 0 ? 40 : i % 3 == 1 ? 3000 : 20000);
    }
    for (size_t i = 0; i < 6; i++) {
        ps_heap_free(blocks[i]);
    }
    ps_front_thread_ended();
}

FRESH_TEST(a_thread_uses_slabs_of_an_ended_one) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_blocks, use_left_slabs, use_everything, 61);
}

/* ---- lists of several slabs ---- */

#define SLABS 6
#define SLAB_BYTES 3000
#define SLAB_BLOCKS 21 /* in a slab of that class */

static void leave_one_in_each(void *unused) {
    (void)unused;
    static void *blocks[SLABS * SLAB_BLOCKS];
    for (size_t i = 0; i < SLABS * SLAB_BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(SLAB_BYTES);
    }
    for (size_t i = 0; i < SLABS * SLAB_BLOCKS; i++) {
        if (i % SLAB_BLOCKS == 0) {
            live_start(&before[i / SLAB_BLOCKS], blocks[i], SLAB_BYTES, i);
        } else {
            ps_heap_free(blocks[i]);
        }
    }
}

static void leave_list_of_slabs(void) {
    worker_start(&worker);
    worker_do(&worker, leave_one_in_each, NULL);
    worker_stop(&worker);
}

/* All slabs serve, and no block is had twice. */
static void use_list_of_slabs(void) {
    static struct live_block blocks[SLABS * SLAB_BLOCKS];
    check_page_cache();
    for (size_t i = 0; i < SLABS * SLAB_BLOCKS; i++) {
        live_start(&blocks[i], ps_heap_alloc(SLAB_BYTES), SLAB_BYTES, i + 1);
    }
    live_end_all(before, BLOCKS);
    live_end_all(blocks, SLABS * SLAB_BLOCKS);
    use_everything();
}

static void use_three_and_leave_them(void) {
    void *blocks[3 * SLAB_BLOCKS];
    for (size_t i = 0; i < 3 * SLAB_BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(SLAB_BYTES);
    }
    for (size_t i = 0; i < 3 * SLAB_BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    void *last = before[SLABS - 1].address;
    before[SLABS - 1].address = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees the rest */
    ps_heap_free(last);                      /* of a slab that was not used: it drains */
    ps_front_thread_ended();
}

FRESH_TEST(lists_of_slabs_stay_whole) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_list_of_slabs, use_three_and_leave_them, use_list_of_slabs, 61);
}

/* At most the blocks of the slab that was being purged are lost. */
static void use_purged_slabs(void) {
    static struct live_block blocks[SLABS * SLAB_BLOCKS];
    check_page_cache();
    for (size_t i = 0; i < SLABS * SLAB_BLOCKS; i++) {
        live_start(&blocks[i], ps_heap_alloc(SLAB_BYTES), SLAB_BYTES, i + 1);
    }
    live_end_all(before, BLOCKS);
    live_end_all(blocks, SLABS * SLAB_BLOCKS);
    use_everything();
}

static void purge_slabs(void) { (void)ps_store_purge_all(); }

FRESH_TEST(slabs_are_purged) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_list_of_slabs, purge_slabs, use_purged_slabs, 61);
}

static void free_left(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block = before[i].address;
        before[i].address = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees the rest */
        ps_heap_free(block);
    }
    ps_front_thread_ended();
}

FRESH_TEST(a_thread_frees_blocks_of_others) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_blocks, free_left, use_everything, 97);
}

static void end_and_go_on(void) {
    void *block = ps_heap_alloc(500);
    ps_front_thread_ended();
    void *late = ps_heap_alloc(600); /* from the store */
    ps_heap_free(block);
    ps_heap_free(late);
}

FRESH_TEST(a_thread_ends_and_allocates_still) {
    busy_granules_max = 4;
    ps_engine_start();
    fork_at_each_step(NULL, end_and_go_on, use_everything, 61);
}

static void mappings(void) {
    void *a = ps_heap_alloc(5 * MIB);
    void *b = ps_heap_alloc(6 * MIB);
    ps_heap_free(a);
    ps_heap_free(b);
    a = ps_heap_alloc(5 * MIB);
    ps_heap_free(a);
    ps_maintenance_trim(0);
}

FRESH_TEST(mappings_come_and_go) {
    busy_granules_max = 0;
    ps_engine_start();
    fork_at_each_step(NULL, mappings, use_everything, 47);
}

static void make_dirty_runs(void) { make_dirty_of(600000); }

FRESH_TEST(free_runs_are_purged) {
    busy_granules_max = 30;
    ps_engine_start();
    fork_at_each_step(make_dirty_runs, trim, use_everything, 7);
}

UNIT_MAIN
