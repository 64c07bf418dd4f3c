// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Caches of processors that come before the heap: in which threads, and what they get. */
#include "pools/engine/heap/refill.h"
#include "tests/unit/passed_blocks.h"

static bool is_first;
static void read_is_first(void *is_asked_again) {
    if (is_asked_again != NULL) {
        ps_cpu_cache_choose();
    }
    is_first = ps_thread_caches_first(&ps_thread);
}

static bool comes_first(struct worker *worker, bool is_asked_again) {
    worker_do(worker, read_is_first, is_asked_again ? &is_first : NULL);
    return is_first;
}

static void reuse_own(void *unused) {
    struct ps_heap *heap = ps_thread_own();
    (void)unused;
    ps_heap_free(ps_heap_alloc(BYTES));
    size_t before = cached();
    uint64_t frees = heap->x_remote_frees;
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
    CHECK_CMP(heap->x_remote_frees, <=, frees + 2);
}

FRESH_TEST(caches_come_first_where_there_are_many_threads) {
    start_two_threads();
    worker_do(&owner, acquire_heap, NULL);
    worker_do(&other, acquire_heap, NULL);
    CHECK(!comes_first(&other, true));
    worker_start(&third);
    worker_do(&third, acquire_heap, NULL);
    CHECK(comes_first(&third, false)); /* the thread that makes them many, at once */
    CHECK(comes_first(&other, true));
    pass_blocks();
    worker_do(&other, reuse_own, NULL);
    tear_down();
}

FRESH_TEST(caches_come_first_only_with_restartable_sequences) {
    start_threads();
    ps_cpu_may_be_first = false;
    worker_do(&third, acquire_heap, NULL);
    pass_blocks();
    CHECK(!comes_first(&other, true));
    CHECK_CMP(cached(), >, 0);
    tear_down();
}

#define MANY 4000

static void *many[MANY];

static void allocate_many(void *bytes) {
    for (size_t i = 0; i < MANY; i++) {
        many[i] = ps_heap_alloc(*(size_t *)bytes);
    }
}

static void free_many(void *unused) {
    (void)unused;
    for (size_t i = 0; i < MANY; i++) {
        ps_heap_free(many[i * 37 % MANY]); /* no streak */
    }
}

/* No cache exists when they begin. */
FRESH_TEST(threads_that_only_free_leave_no_tag_of_a_span_that_has_gone) {
    size_t bytes = 64;
    start_threads();
    worker_do(&owner, allocate_many, &bytes);
    worker_do(&other, acquire_heap, NULL);
    worker_do(&third, acquire_heap, NULL);
    CHECK(comes_first(&third, true));
    worker_do(&third, free_many, NULL);
    ps_heap_trim(0);
    worker_stop(&owner);
    worker_start(&owner);
    ps_heap_trim(0);
    for (size_t i = 0; i < MANY; i++) {
        bool is_span = ps_page_map_slot(many[i])->run.kind == PS_RUN_SPAN;
        CHECK(is_span || ps_page_map_tag(many[i]) == 0);
    }
    tear_down();
}

FRESH_TEST(caches_come_first_until_there_are_few_threads) {
    set_up();
    CHECK(comes_first(&other, true));
    worker_stop(&third);
    CHECK(comes_first(&other, true)); /* as many threads as before, when it was not so */
    worker_stop(&owner);
    CHECK(!comes_first(&other, true));
    worker_start(&third);
    worker_do(&third, acquire_heap, NULL);
    CHECK(!comes_first(&third, true));
    worker_start(&owner);
    worker_do(&owner, acquire_heap, NULL);
    CHECK(comes_first(&owner, false));
    tear_down();
}

FRESH_TEST(a_thread_whose_caches_come_first_ends) {
    set_up();
    CHECK(comes_first(&other, true));
    worker_do(&owner, allocate, NULL);
    worker_stop(&other);
    worker_start(&other);
    worker_do(&other, free_all, NULL);
    tear_down();
}

UNIT_MAIN
