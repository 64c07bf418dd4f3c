// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's work with medium blocks: see fork_step_test.c.
 */
#include "pools/engine/page/medium_regions.h"

#include "pools/engine/heap/medium_path.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fork_step_check.h"
#include "tests/unit/set_nodes.h"

static void medium_blocks(void) {
    void *a = ps_heap_alloc(100000);
    void *b = ps_heap_alloc(300000);
    void *c = ps_heap_alloc(70000);
    ps_heap_free(b); /* no free neighbour */
    ps_heap_free(a); /* one after it */
    b = ps_block_alloc_aligned(100000, 1 << 19);
    ps_heap_free(c);
    ps_heap_free(b); /* both sides */
}

FRESH_TEST(medium_blocks_come_and_go) {
    busy_granules_max = 16; /* a region that is on its way from the page cache or back */
    ps_engine_start();
    fork_at_each_step(NULL, medium_blocks, use_everything, 31);
}

/* The shards of another node are made when it is first used, whichever part the thread has. */
FRESH_TEST(a_shard_is_made_and_used) {
    busy_granules_max = 16;
    ps_engine_start();
    set_nodes();
    fake_os_set_cpu(1);
    ps_medium_set_spread(4);
    fork_at_each_step(NULL, medium_blocks, use_everything, 31);
    CHECK(ps_medium_shard_at(1) != NULL);
}

/* Blocks enter the front and leave it, all at the end. */
static void waiting_blocks(void) {
    void *blocks[16];
    for (size_t i = 0; i < 16; i++) {
        blocks[i] = ps_heap_alloc(9000 + i % 4 * 4096);
    }
    for (size_t i = 0; i < 16; i++) {
        ps_heap_free(blocks[i]);
    }
    blocks[0] = ps_heap_alloc(9000);
    blocks[1] = ps_heap_alloc(9000 + 3 * 4096);
    ps_heap_free(blocks[1]);
    ps_heap_free(blocks[0]);
    ps_front_thread_ended();
}

FRESH_TEST(medium_blocks_wait_and_leave) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(NULL, waiting_blocks, use_everything, 97);
}

/* Frees the last of some blocks when the front has the others. */
static void free_last_of(size_t count, size_t bytes) {
    void *blocks[PS_FRONT_LENGTH_BLOCKS + 1];
    is_prelude = true;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_heap_alloc(bytes);
    }
    for (size_t i = 0; i + 1 < count; i++) {
        ps_heap_free(blocks[i]);
    }
    is_prelude = false;
    ps_heap_free(blocks[count - 1]);
    is_prelude = true;
    ps_front_thread_ended();
    is_prelude = false;
}

static void full_class(void) { free_last_of(PS_FRONT_LENGTH_BLOCKS + 1, 9000); }

FRESH_TEST(half_of_a_full_class_leaves) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(NULL, full_class, use_everything, 7);
}

static void resized_blocks(void) {
    void *a = ps_heap_alloc(100000);
    a = ps_block_resize(a, 180000);
    a = ps_block_resize(a, 70000);
    ps_heap_free(a);
}

FRESH_TEST(medium_blocks_are_resized_in_place) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(NULL, resized_blocks, use_everything, 31);
}

static void make_dirty_pages(void) { make_dirty_of(200000); }

FRESH_TEST(free_pages_are_purged) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(make_dirty_pages, trim, use_everything, 7);
}

/* Purges as the engine does over time. */
static void purge_as_time_passes(void) {
    for (int i = 0; i < 12; i++) {
        fake_os_advance_ms(250);
        ps_medium_purge_tick(ps_os_now_ms());
    }
}

FRESH_TEST(free_pages_are_purged_as_time_passes) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(make_dirty_pages, purge_as_time_passes, use_everything, 7);
}

UNIT_MAIN
