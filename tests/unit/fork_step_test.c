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

#include "pools/engine/heap/orphan_purge.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"

ENGINE_HEAPS

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
    ps_heap_trim(0);
    ps_heap_free(rows[2]);
}

static void lengthened_run(void) { ps_heap_free(ps_heap_alloc(1700000)); }

FRESH_TEST(a_dirty_run_is_lengthened) {
    busy_granules_max = 26;
    ps_engine_start();
    fork_at_each_step(leave_short_runs, lengthened_run, use_everything, 13);
}

static void whole_spans(void) {
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

FRESH_TEST(a_thread_takes_its_first_spans_and_gives_them_back) {
    busy_granules_max = 4;
    ps_engine_start();
    fork_at_each_step(NULL, whole_spans, use_everything, 43);
}

static void allocate_before(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = i % 3 == 0 ? 40 : i % 3 == 1 ? 3000 : 20000;
        live_start(&before[i], ps_heap_alloc(bytes), bytes, i);
    }
}

static struct worker worker;

static void leave_orphans(void) {
    worker_start(&worker);
    worker_do(&worker, allocate_before, NULL);
    worker_stop(&worker);
}

static void adopt_orphans(void) {
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = ps_heap_alloc(i % 3 == 0 ? 40 : i % 3 == 1 ? 3000 : 20000);
    }
    for (size_t i = 0; i < 6; i++) {
        ps_heap_free(blocks[i]);
    }
    ps_heap_give_up();
}

FRESH_TEST(a_thread_adopts_orphans_and_leaves_them_again) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_orphans, adopt_orphans, use_everything, 61);
}

/* ---- lists of several orphans ---- */

#define ORPHANS 6
#define ORPHAN_BYTES 3000
#define ORPHAN_BLOCKS 21 /* in a span of that class */

static void leave_one_in_each(void *unused) {
    (void)unused;
    static void *blocks[ORPHANS * ORPHAN_BLOCKS];
    for (size_t i = 0; i < ORPHANS * ORPHAN_BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(ORPHAN_BYTES);
    }
    for (size_t i = 0; i < ORPHANS * ORPHAN_BLOCKS; i++) {
        if (i % ORPHAN_BLOCKS == 0) {
            live_start(&before[i / ORPHAN_BLOCKS], blocks[i], ORPHAN_BYTES, i);
        } else {
            ps_heap_free(blocks[i]);
        }
    }
}

static void leave_list_of_orphans(void) {
    worker_start(&worker);
    worker_do(&worker, leave_one_in_each, NULL);
    worker_stop(&worker);
    CHECK_CMP(engine_census().orphan_span_count, >=, ORPHANS - 1);
}

/* All orphans are adopted, and no block is had twice. */
static void use_list_of_orphans(void) {
    static struct live_block blocks[ORPHANS * ORPHAN_BLOCKS];
    check_page_cache();
    for (size_t i = 0; i < ORPHANS * ORPHAN_BLOCKS; i++) {
        live_start(&blocks[i], ps_heap_alloc(ORPHAN_BYTES), ORPHAN_BYTES, i + 1);
    }
    CHECK_EQ(engine_census().orphan_span_count, 0);
    live_end_all(before, BLOCKS);
    live_end_all(blocks, ORPHANS * ORPHAN_BLOCKS);
    use_everything();
}

static void adopt_three_and_leave_them(void) {
    void *blocks[3 * ORPHAN_BLOCKS];
    for (size_t i = 0; i < 3 * ORPHAN_BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(ORPHAN_BYTES);
    }
    for (size_t i = 0; i < 3 * ORPHAN_BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    void *last = before[ORPHANS - 1].address;
    before[ORPHANS - 1].address = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees the rest */
    ps_heap_free(last);                      /* of an orphan that was not adopted: it drains */
    ps_heap_give_up();
}

FRESH_TEST(lists_of_orphans_stay_whole) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_list_of_orphans, adopt_three_and_leave_them, use_list_of_orphans, 61);
}

/* At most the span that was being purged has no list, and still has its blocks. */
static void use_purged_orphans(void) {
    static struct live_block blocks[ORPHANS * ORPHAN_BLOCKS];
    check_page_cache();
    for (size_t i = 0; i < ORPHANS * ORPHAN_BLOCKS; i++) {
        live_start(&blocks[i], ps_heap_alloc(ORPHAN_BYTES), ORPHAN_BYTES, i + 1);
    }
    live_end_all(before, BLOCKS);
    live_end_all(blocks, ORPHANS * ORPHAN_BLOCKS);
    use_everything();
    CHECK_CMP(engine_census().orphan_span_count, <=, 1);
}

static void purge_orphans(void) { (void)ps_orphan_purge_all(); }

FRESH_TEST(orphans_are_purged) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_list_of_orphans, purge_orphans, use_purged_orphans, 61);
}

/* ---- parked heaps ---- */

static void allocate_and_free_one(void *own_heap) {
    ps_heap_free(ps_heap_alloc(100));
    *(struct ps_heap **)own_heap = ps_thread.own;
}

/* Threads that run at the same time have a heap each. */
static void use_parked_heaps(void) {
    static struct worker workers[4];
    struct ps_heap *heaps[4];
    for (size_t i = 0; i < 4; i++) {
        worker_start(&workers[i]);
        worker_do(&workers[i], allocate_and_free_one, &heaps[i]);
        for (size_t j = 0; j < i; j++) {
            CHECK(heaps[i] != heaps[j]);
        }
        CHECK(heaps[i] != ps_thread.own);
    }
    for (size_t i = 0; i < 4; i++) {
        worker_stop(&workers[i]);
    }
    use_everything();
}

static void park_three_heaps(void) {
    static struct worker workers[3];
    struct ps_heap *heap;
    for (size_t i = 0; i < 3; i++) {
        worker_start(&workers[i]);
        worker_do(&workers[i], allocate_and_free_one, &heap);
    }
    for (size_t i = 0; i < 3; i++) {
        worker_stop(&workers[i]);
    }
}

static void take_a_heap_and_end(void) {
    ps_heap_free(ps_heap_alloc(100));
    ps_heap_give_up();
}

FRESH_TEST(heaps_of_ended_threads_are_taken_and_parked) {
    busy_granules_max = 4;
    ps_engine_start();
    fork_at_each_step(park_three_heaps, take_a_heap_and_end, use_parked_heaps, 17);
}

static void free_orphans(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block = before[i].address;
        before[i].address = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees the rest */
        ps_heap_free(block);
    }
    ps_heap_give_up();
}

FRESH_TEST(a_thread_frees_blocks_of_others) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(leave_orphans, free_orphans, use_everything, 97);
}

static void end_and_go_on(void) {
    void *block = ps_heap_alloc(500);
    ps_heap_give_up();
    void *late = ps_heap_alloc(600); /* of the heap that ended threads share */
    ps_heap_free(block);
    ps_heap_free(late);
}

FRESH_TEST(a_thread_ends_and_allocates_still) {
    busy_granules_max = 4;
    ps_engine_start();
    fork_at_each_step(NULL, end_and_go_on, use_everything, 61);
}

static const struct ps_heap *here;
static bool is_taken;

/* Blocks of the thread that forks; frees those of one span in order. */
static void allocate_here(void) {
    allocate_before(NULL);
    static void *run[64];
    for (size_t i = 0; i < 64; i++) {
        run[i] = ps_heap_alloc(200);
    }
    for (size_t i = 0; i < 64; i++) {
        ps_heap_free(run[i]);
    }
    here = ps_thread.own;
}

static void take_heap_of_forking_thread(void) {
    ps_heap_free(ps_heap_alloc(100));
    for (int i = 0; i < 2; i++) { /* asks, takes */
        fake_os_advance_ms(200);
        ps_thread_enter();
        ps_take_tick(ps_os_now_ms());
        ps_thread_leave();
    }
    is_taken = here->x_state == PS_HEAP_PARKED;
}

FRESH_TEST(a_thread_without_its_heap_forks) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(allocate_here, take_heap_of_forking_thread, use_everything, 23);
    CHECK(is_taken);
}

static void mappings(void) {
    void *a = ps_heap_alloc(5 * MIB);
    void *b = ps_heap_alloc(6 * MIB);
    ps_heap_free(a);
    ps_heap_free(b);
    a = ps_heap_alloc(5 * MIB);
    ps_heap_free(a);
    ps_heap_trim(0);
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
