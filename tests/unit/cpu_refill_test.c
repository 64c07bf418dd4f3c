// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Refills where the caches of processors come first: what they leave in the cache, and the spans
 * that threads share. */
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/orphans.h"
#include "tests/unit/passed_blocks.h"

ENGINE_LONG_CLASSES

static size_t request_bytes = BYTES;

static void choose(void *unused) {
    (void)unused;
    ps_cpu_cache_choose();
}

static void allocate_one(void *block) { *(void **)block = ps_heap_alloc(request_bytes); }

static void free_one(void *block) { ps_heap_free(*(void **)block); }

static uintptr_t owner_of(const void *block) { return ps_span_at(block)->x_owner; }

static void drop_cached(void) {
    ps_cpu_return_all(ps_remote_return);
    CHECK_EQ(cached(), 0);
}

/* Caches come first in all threads, the processor has one, and it is empty. */
static void set_up_empty(void) {
    set_up();
    worker_do(&owner, choose, NULL);
    worker_do(&other, choose, NULL);
    drop_cached();
}

FRESH_TEST(a_refill_fills_the_cache) {
    void *block = NULL;
    set_up_empty();
    struct ps_census before = engine_census();
    worker_do(&owner, allocate_one, &block);
    CHECK_CMP(cached(), >, 1);
    CHECK_EQ(owner_of(block), PS_KEY_ORPHAN);
    struct ps_census after = engine_census();
    CHECK_EQ(after.malloc_count - before.malloc_count, 1);
    CHECK_EQ(after.free_count, before.free_count);
    CHECK_EQ(after.small_live_bytes - before.small_live_bytes, BYTES);
    worker_do(&other, free_one, &block);
    tear_down();
}

FRESH_TEST(the_next_refill_of_any_thread_uses_the_same_span) {
    void *first = NULL;
    void *second = NULL;
    set_up_empty();
    worker_do(&owner, allocate_one, &first);
    fake_os_set_cpu(1); /* its cache is empty */
    worker_do(&other, allocate_one, &second);
    CHECK_EQ(ps_span_at(first), ps_span_at(second));
    fake_os_set_cpu(0);
    worker_do(&other, free_one, &first);
    worker_do(&owner, free_one, &second);
    tear_down();
}

/* Otherwise each request would refill. */
static void check_refill_without_cache(void) {
    void *first = NULL;
    void *second = NULL;
    struct ps_census before = engine_census();
    worker_do(&owner, allocate_one, &first);
    worker_do(&owner, allocate_one, &second);
    struct ps_census after = engine_census();
    CHECK_EQ(cached(), 0);
    CHECK_CMP(owner_of(first), >, PS_KEY_ORPHAN);
    CHECK_EQ(ps_span_at(first), ps_span_at(second));
    CHECK_EQ(after.malloc_count - before.malloc_count, 2);
    CHECK_EQ(after.free_count, before.free_count);
    CHECK_EQ(after.small_live_bytes - before.small_live_bytes, 2 * BYTES);
    worker_do(&owner, free_one, &first);
    worker_do(&owner, free_one, &second);
}

FRESH_TEST(a_span_stays_with_the_heap_if_the_cache_takes_no_block) {
    set_up_empty();
    WHEN("the span is of another node");
    ps_cpu_x_caches[0]->node = 1;
    check_refill_without_cache();
    ps_cpu_x_caches[0]->node = 0;
    WHEN("memory is short");
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    check_refill_without_cache();
    ps_retention_x_pressure = PS_PRESSURE_NONE;
    WHEN("the processor has no cache");
    fake_os_set_cpu(PS_CPU_CACHES);
    check_refill_without_cache();
    fake_os_set_cpu(0);
    tear_down();
}

FRESH_TEST(many_refills_use_a_span_until_it_is_full) {
    static void *all[TRIES];
    set_up_empty();
    for (size_t i = 0; i < TRIES; i++) {
        worker_do(i % 2 == 0 ? &owner : &other, allocate_one, &all[i]);
    }
    struct ps_census census = engine_census();
    size_t span_blocks = PS_GRANULE_BYTES / BYTES;
    CHECK_CMP(census.small_span_bytes / PS_GRANULE_BYTES, <=, TRIES / span_blocks + 2);
    for (size_t i = 0; i < TRIES; i++) {
        worker_do(i % 3 == 0 ? &owner : &other, free_one, &all[i]);
    }
    tear_down();
}

#define MANY_BYTES (PS_HUGE_CLASS_BYTES / 2 * 3) /* of each of two threads three quarters */

static void *many[MANY_BYTES / 1024];

static void allocate_half(void *first) {
    for (size_t i = *(size_t *)first; i < sizeof many / sizeof many[0]; i += 2) {
        many[i] = ps_heap_alloc(request_bytes);
    }
}

static bool is_dense(const void *block) { return ps_page_map_slot(block)->run.is_huge; }

FRESH_TEST(a_class_is_dense_if_the_spans_of_all_threads_are_many) {
    size_t last = sizeof many / sizeof many[0] - 1;
    set_up_empty();
    request_bytes = 1024;
    worker_do(&owner, allocate_half, &(size_t){0});
    CHECK(!is_dense(many[last - 1]));
    worker_do(&other, allocate_half, &(size_t){1});
    CHECK(is_dense(many[last]));
    for (size_t i = 0; i <= last; i++) {
        worker_do(&other, free_one, &many[i]);
    }
    tear_down();
}

FRESH_TEST(spans_of_several_granules_stay_with_the_heap) {
    void *block = NULL;
    set_up_empty();
    request_bytes = PS_CLASS_BYTES_LIMIT;
    worker_do(&owner, allocate_one, &block);
    CHECK_CMP(owner_of(block), >, PS_KEY_ORPHAN);
    worker_do(&other, free_one, &block);
    tear_down();
}

static void tick(void *unused) {
    (void)unused;
    ps_thread_enter();
    ps_thread_own()->tick_countdown = 0;
    ps_heap_tick(ps_thread_own());
    ps_thread_leave();
}

FRESH_TEST(spans_from_before_are_shared_when_there_are_many_threads) {
    void *block = NULL;
    start_two_threads();
    worker_do(&owner, allocate_one, &block);
    worker_do(&other, acquire_heap, NULL);
    CHECK_CMP(owner_of(block), >, PS_KEY_ORPHAN);
    worker_start(&third);
    worker_do(&third, acquire_heap, NULL);
    fake_os_advance_ms(2 * PS_RETENTION_SCAN_MS);
    worker_do(&owner, tick, NULL);
    CHECK_EQ(owner_of(block), PS_KEY_ORPHAN);
    worker_do(&owner, free_one, &block);
    tear_down();
}

UNIT_MAIN
