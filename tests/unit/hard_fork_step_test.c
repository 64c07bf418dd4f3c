// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's hardened calls (fork_step.h): the sweep of the
 * child must take no block for damaged that the other thread was inside of, and the child must be
 * able to allocate and free.
 */
#include "pools/engine/front/slab_room.h"
#include "pools/engine/harden/hard.h"
#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/worker.h"

#define BLOCKS 80

static void *volatile kept[BLOCKS]; /* of the thread that steps */

/* Frees what the other thread had: at the notice of a span, its account starts over. */
static void use_and_sweep(void) {
    static struct live_block blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(kept[i]);
        kept[i] = NULL;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = 40 + i % 4 * 900;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
    }
    live_end_all(blocks, BLOCKS);
    ps_hard_sweep();
}

static void fill_and_free(size_t bytes) {
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        memset(blocks[i], 'x', bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
}

static void fill_all(void *unused) {
    (void)unused;
    for (size_t bytes = 700; bytes <= 2800; bytes *= 2) {
        fill_and_free(bytes);
    }
}

/* The thread that ends leaves memory with links, canaries, and shadow bytes of freed blocks. */
static void leave_used_memory(void) {
    static struct worker worker;
    worker_start(&worker);
    worker_do(&worker, fill_all, NULL);
    worker_stop(&worker);
}

static void use_memory_again(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        kept[i] = ps_heap_alloc(1900);
    }
    fill_and_free(1400);
}

static void check_at(uint32_t level, uint64_t every) {
    engine_config.harden = level;
    ps_engine_start();
    ps_slab_sparse_slabs = 0; /* their memory is fresh */
    fork_at_each_step(leave_used_memory, use_memory_again, use_and_sweep, every);
}

FRESH_TEST(the_sweep_of_a_child_finds_nothing_at_level_1) { check_at(1, 197); }

FRESH_TEST(the_sweep_of_a_child_finds_nothing_at_level_2) { check_at(2, 97); }

FRESH_TEST(the_sweep_of_a_child_finds_nothing_at_level_3) { check_at(3, 397); }

UNIT_MAIN
