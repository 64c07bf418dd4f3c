// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Caches of processors that come before the heap: which threads choose them, and what they get. */
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "tests/unit/passed_blocks.h"

static struct ps_heap *heap_of_other;

static void free_and_choose(void *is_own) {
    heap_of_other = ps_thread_own();
    for (size_t i = 0; i < BLOCKS && is_own != NULL; i++) {
        blocks[i] = ps_heap_alloc(BYTES);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    ps_thread_enter();
    ps_remote_flush(heap_of_other);
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_bin_settle(&heap_of_other->bins[i], heap_of_other->current[i]);
    }
    ps_cpu_cache_choose(heap_of_other);
    ps_thread_leave();
}

static bool is_first;
static void read_is_first(void *unused) {
    (void)unused;
    is_first = ps_thread.caches_first != 0;
}

static bool comes_first(void) {
    worker_do(&other, read_is_first, NULL);
    return is_first;
}

/* The other thread frees nothing but blocks of the first. */
static void make_first(void) {
    set_up();
    for (int i = 0; i < 100 && !comes_first(); i++) {
        worker_do(&owner, allocate, NULL);
        worker_do(&other, free_and_choose, NULL);
        worker_do(&other, allocate, NULL);
        worker_do(&owner, free_all, NULL);
    }
    CHECK(comes_first());
}

static void reuse_own(void *unused) {
    (void)unused;
    ps_heap_free(ps_heap_alloc(BYTES));
    size_t before = cached();
    uint64_t frees = heap_of_other->x_remote_frees;
    void *block = ps_heap_alloc(BYTES);
    CHECK_EQ(cached(), before - 1);
    ps_heap_free(block);
    CHECK_EQ(cached(), before);
    CHECK_EQ(ps_heap_alloc(BYTES), block);
    void *zero = ps_block_zalloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        CHECK_EQ(((char *)zero)[i], 0);
    }
    ps_heap_free(zero);
    CHECK_EQ(ps_block_usable(block), BYTES);
    void *longer = ps_block_resize(block, 8 * BYTES);
    ps_heap_free(longer);
    CHECK_CMP(heap_of_other->x_remote_frees, <=, frees + 2);
}

FRESH_TEST(caches_come_first_where_a_thread_frees_blocks_of_others) {
    make_first();
    worker_do(&other, reuse_own, NULL);
    for (int i = 0; i < 100 && comes_first(); i++) {
        worker_do(&other, free_and_choose, &owner); /* its own blocks alone */
    }
    CHECK(!comes_first());
    tear_down();
}

FRESH_TEST(caches_do_not_come_first_once_there_are_few_threads) {
    make_first();
    ps_background_fork_child(true); /* counts one thread */
    worker_do(&other, free_and_choose, &owner);
    CHECK(!comes_first());
    ps_background_thread_begun();
    ps_background_thread_begun();
    tear_down();
}

FRESH_TEST(a_thread_whose_caches_come_first_ends) {
    make_first();
    worker_do(&owner, allocate, NULL);
    worker_stop(&other);
    worker_start(&other);
    worker_do(&other, free_all, NULL);
    tear_down();
}

UNIT_MAIN
