// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Blocks of other heaps that a processor caches: reuse, bounds, return, misuse, forks. */
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/profile/countdown.h"
#include "pools/engine/profile/profile.h"
#include "tests/unit/passed_blocks.h"

#include <math.h>
#include <sys/wait.h>

ENGINE_HEAPS

FRESH_TEST(what_another_thread_allocated_serves_the_one_that_freed_it) {
    set_up();
    CHECK_CMP(cached(), >, 0);
    CHECK_CMP(cached(), <=, PS_CPU_CACHE_BLOCKS);
    check_live_blocks(0);
    worker_do(&other, find, NULL);
    CHECK(found != NULL);
    check_live_blocks(1);
    memset(found, 0xff, BYTES);
    worker_do(&owner, free_found, NULL);
    check_live_blocks(0);
    tear_down();
}

static size_t cached_on(size_t cpu) {
    const struct ps_cpu_cache *cache = ps_cpu_x_caches[cpu];
    return cache != NULL ? cache->x_state[ps_size_class_of(BYTES)] & PS_CPU_STATE_COUNT : 0;
}

FRESH_TEST(another_processor_has_other_blocks) {
    set_up();
    size_t before = cached();
    fake_os_set_cpu(1);
    pass_blocks(); /* makes its cache */
    CHECK_EQ(cached_on(0), before);
    CHECK_CMP(cached_on(1), >, 0);
    tear_down();
}

FRESH_TEST(a_processor_beyond_those_with_caches_caches_nothing) {
    set_up();
    size_t before = cached();
    fake_os_set_cpu(PS_CPU_CACHES);
    worker_do(&owner, allocate, NULL);
    worker_do(&other, find, NULL);
    worker_do(&other, free_all, NULL);
    CHECK_EQ(cached(), before);
    fake_os_set_cpu(UINT32_MAX);
    worker_do(&owner, allocate, NULL);
    worker_do(&other, free_all, NULL);
    CHECK_EQ(cached(), before);
    fake_os_set_cpu(0);
    tear_down();
}

FRESH_TEST(blocks_of_another_node_are_not_cached) {
    set_up();
    size_t before = cached();
    worker_do(&owner, allocate, NULL); /* of node 0 */
    before -= before < BLOCKS ? before : BLOCKS;
    ps_cpu_x_caches[0]->node = 1;
    worker_do(&other, free_all, NULL);
    CHECK_EQ(cached(), before);
    ps_cpu_x_caches[0]->node = 0;
    worker_do(&owner, allocate, NULL);
    worker_do(&other, free_all, NULL);
    CHECK_CMP(cached(), >, 0);
    tear_down();
}

static void tick(uint64_t ms) {
    fake_os_advance_ms(ms);
    for (int i = 0; i < 4; i++) { /* a round is over */
        (void)ps_cpu_return_tick(ps_os_now_ms(), ps_remote_return);
        fake_os_advance_ms(1);
    }
}

FRESH_TEST(unused_blocks_return_to_their_spans) {
    set_up();
    uint64_t passed_ms = 0;
    for (; cached() != 0; passed_ms += 10) {
        tick(10);
        REQUIRE(passed_ms <= 3 * PS_RETENTION_SCAN_MS);
    }
    CHECK_CMP(passed_ms, >=, PS_RETENTION_SCAN_MS / 2);
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(ps_cpu_return_tick(ps_os_now_ms(), ps_remote_return), 0);
    tear_down();
}

#define USED 3

static void use_some(void *unused) {
    void *used[USED];
    (void)unused;
    ps_thread_enter();
    for (int i = 0; i < USED; i++) {
        used[i] = ps_cpu_cache_take(ps_size_class_of(BYTES));
        CHECK(used[i] != NULL);
    }
    ps_thread_leave();
    for (int i = 0; i < USED; i++) {
        ps_heap_free(used[i]);
    }
}

FRESH_TEST(blocks_from_the_cache_are_counted_as_allocated) {
    set_up();
    struct ps_census before = engine_census();
    worker_do(&other, use_some, NULL);
    struct ps_census after = engine_census();
    CHECK_EQ(after.malloc_count - before.malloc_count, USED);
    CHECK_EQ(after.free_count - before.free_count, USED);
    tear_down();
}

FRESH_TEST(as_many_blocks_stay_as_were_used) {
    set_up();
    size_t before = cached();
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(cached(), before); /* none was idle for so long */
    worker_do(&other, use_some, NULL);
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(cached(), USED);
    worker_do(&other, use_some, NULL);
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(cached(), USED);
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(cached(), 0);
    tear_down();
}

FRESH_TEST(no_block_is_cached_while_memory_is_short) {
    set_up();
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    for (int i = 0; i < 100; i++) {
        tick(20);
    }
    CHECK_EQ(cached(), 0);
    worker_do(&owner, allocate, NULL);
    worker_do(&other, find, NULL);
    worker_do(&other, free_all, NULL);
    CHECK_EQ(cached(), 0);
    ps_retention_x_pressure = PS_PRESSURE_NONE;
    worker_do(&other, free_found, NULL);
    tear_down();
}

static void *cached_block(size_t index) {
    return ps_cpu_x_caches[0]->blocks[ps_size_class_of(BYTES)][index];
}

FRESH_TEST(other_calls_with_a_cached_block_are_reported) {
    set_up();
    CHECK_ABORTS(ps_block_usable(cached_block(0)), "poolshim: size of free block 0x");
    CHECK_ABORTS(ps_block_resize(cached_block(0), 2 * BYTES), "poolshim: realloc of free block 0x");
}

static uint64_t *state_of_class(void) {
    return &ps_cpu_x_caches[0]->x_state[ps_size_class_of(BYTES)];
}

static void hold(void) { *state_of_class() |= PS_CPU_STATE_HELD; }

static void release(void) { *state_of_class() &= ~(uint64_t)PS_CPU_STATE_HELD; }

FRESH_TEST(a_second_free_of_a_thread_without_caches_is_reported_when_the_block_leaves) {
    set_up();
    do { /* ends: the second refill takes no fresh memory, so that the caches do not come first */
        ps_registry_set_caches_first(false);
        found = ps_heap_alloc(BYTES);
    } while (!ps_heap_owns(ps_thread_own(), ps_span_at(found)));
    worker_do(&other, free_found, NULL);
    ps_heap_free(found); /* its fast path does not know the mark */
    CHECK_ABORTS(ps_cpu_return_all(ps_remote_return), "poolshim: double free of, or write after");
}

FRESH_TEST(a_write_to_a_cached_block_is_reported_when_it_is_taken) {
    set_up();
    for (size_t i = 0; i < BLOCKS; i++) {
        memset(blocks[i], 0x55, 8);
    }
    CHECK_ABORTS(ps_cpu_return_all(ps_remote_return), "poolshim: ");
}

/* ---- while allocations are sampled ---- */

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)limit;
    (void)instruction;
    sites[0] = 1;
    return 1;
}

static size_t drawn; /* blocks that the other thread took from the cache */

static void allocate_cached(void *unused) {
    size_t before = cached();
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(BYTES);
    }
    drawn += before - cached();
}

static void *kept[8 * TRIES];
static size_t kept_count;

/* Allocates until the thread's heap has no block of the class. */
static void exhaust(void *unused) {
    size_t before = cached();
    (void)unused;
    while (cached() == before && kept_count < sizeof kept / sizeof kept[0]) {
        kept[kept_count++] = ps_heap_alloc(BYTES);
    }
}

static void free_kept(void *unused) {
    (void)unused;
    while (kept_count > 0) {
        ps_heap_free(kept[--kept_count]);
    }
}

/* Fresh spans, each of which raises the limit of the cache. */
static void take_fresh_spans(void *unused) {
    static void *many[8 * TRIES];
    (void)unused;
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        many[i] = ps_heap_alloc(BYTES);
    }
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        ps_heap_free(many[i]);
    }
}

static void profile_every(size_t interval_bytes) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = interval_bytes;
    engine_config.profile_seed = 1;
}

static void check_that_cached_blocks_are_reused(void) {
    set_up();
    CHECK_CMP(cached(), >, 1);
    worker_do(&other, exhaust, NULL);
    worker_do(&other, allocate_cached, NULL);
    CHECK_CMP(drawn, >, 0);
    worker_do(&other, free_all, NULL);
    worker_do(&other, free_kept, NULL);
    tear_down();
}

FRESH_TEST(a_sampled_process_reuses_what_it_caches) {
    profile_every((size_t)1 << 30);
    check_that_cached_blocks_are_reused();
}

FRESH_TEST(a_process_with_guarded_samples_reuses_what_it_caches) {
    engine_config.guard_sample = 1000000;
    engine_config.guard_slots = 8;
    check_that_cached_blocks_are_reused();
}

FRESH_TEST(blocks_of_the_cache_are_sampled_as_often_as_others) {
    const size_t interval = 512;
    profile_every(interval);
    set_up();
    worker_do(&other, take_fresh_spans, NULL);
    worker_do(&other, exhaust, NULL);
    double blocks_made = 0;
    const struct ps_profile_stack *stack = ps_profile_next(NULL); /* the only one */
    struct ps_profile_sums before = {0};
    struct ps_profile_sums after = {0};
    ps_profile_read_sums(stack, &before);
    for (int round = 0; round < 2000; round++) {
        worker_do(&owner, allocate, NULL);
        worker_do(&other, free_all, NULL);
        worker_do(&other, allocate_cached, NULL);
        worker_do(&other, free_all, NULL);
        blocks_made += 2 * BLOCKS;
    }
    ps_profile_read_sums(stack, &after);
    CHECK_CMP((double)drawn, >, blocks_made / 32);
    double hit = -expm1(-(double)BYTES / (double)interval);
    double deviation = sqrt(blocks_made * (1 - hit) / hit);
    CHECK(fabs((double)(after.made_weight - before.made_weight) / PS_DRAW_WEIGHT_ONE -
               blocks_made) < 4 * deviation);
    worker_do(&other, free_kept, NULL);
    tear_down();
}

/* ---- a held class ---- */

FRESH_TEST(a_held_class_is_left_alone) {
    set_up();
    size_t before = cached();
    hold();
    worker_do(&owner, allocate, NULL);
    worker_do(&other, find, NULL);
    worker_do(&other, free_found, NULL);
    worker_do(&other, free_all, NULL);
    ps_cpu_return_all(ps_remote_return);
    CHECK_EQ(cached(), before);
    release();
    tear_down();
}

/* The blocks in the child's cache, a class of which was held; the child is able to return all. */
static size_t cached_in_child(void) {
    int status;
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        size_t before = cached();
        ps_cpu_return_all(ps_remote_return);
        _exit(cached() != 0 ? 100 : (int)(before < 100 ? before : 99));
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    return (size_t)WEXITSTATUS(status);
}

FRESH_TEST(a_child_uses_the_class_that_a_thread_of_its_parent_held) {
    set_up();
    size_t before = cached();
    REQUIRE(before > 0);
    hold();
    CHECK_EQ(cached_in_child(), before < 99 ? before : 99);
    WHEN("its blocks were being moved");
    ps_cpu_x_caches[0]->changing = ps_size_class_of(BYTES);
    CHECK_EQ(cached_in_child(), 0);
    ps_cpu_x_caches[0]->changing = PS_CPU_NO_CLASS;
    release();
    CHECK_EQ(cached(), before);
    tear_down();
}

FRESH_TEST(without_memory_for_a_cache_blocks_return_to_their_spans) {
    start_threads();
    worker_do(&owner, allocate, NULL);
    worker_do(&other, find, NULL);
    worker_do(&third, acquire_heap, NULL);
    fake_os_refuse(~0u);
    for (int i = 0; i < 4; i++) {
        worker_do(&other, free_all, NULL);
        worker_do(&owner, allocate, NULL);
    }
    fake_os_refuse(0);
    worker_do(&owner, free_all, NULL);
    tear_down();
}

FRESH_TEST(few_threads_for_the_processor_cache_nothing) {
    start_two_threads();
    pass_blocks();
    CHECK_EQ(cached(), 0);
    WHEN("there is one more");
    worker_start(&third);
    worker_do(&third, acquire_heap, NULL);
    pass_blocks();
    CHECK_CMP(cached(), >, 0);
    tear_down();
}

UNIT_MAIN
