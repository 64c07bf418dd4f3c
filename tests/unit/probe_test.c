// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Sampling for tracers: it begins and ends with the semaphores of the probes, in the middle of a
 * program's life, and earlier counts and samples falsify nothing afterwards. The probes themselves
 * are replaced here and record their arguments.
 */
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/os/probe.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "tests/unit/sampled.h"

#define INTERVAL ((size_t)16 * KIB)
#define LIVE_LIMIT 65536

uint16_t ps_probe_x_alloc_semaphore;
uint16_t ps_probe_x_free_semaphore;

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static const void *live[LIVE_LIMIT]; /* sampled and not freed, by address */
static uint64_t alloc_count;
static uint64_t free_count;
static uint64_t weight_bytes;
static uint64_t unknown_count; /* frees of blocks that were not told of, and the reverse */

static size_t place_of(const void *block) {
    size_t at = ((uintptr_t)block >> 4) * 2654435761u % LIVE_LIMIT;
    while (live[at] != NULL && live[at] != block) {
        at = (at + 1) % LIVE_LIMIT;
    }
    return at;
}

void ps_probe_alloc(const void *block, uint64_t bytes, uint64_t weight) {
    pthread_mutex_lock(&live_lock);
    size_t at = place_of(block);
    unknown_count += live[at] != NULL || bytes == 0 || weight < bytes;
    live[at] = block;
    alloc_count++;
    weight_bytes += weight;
    pthread_mutex_unlock(&live_lock);
}

void ps_probe_free(const void *block) {
    pthread_mutex_lock(&live_lock);
    size_t at = place_of(block);
    unknown_count += live[at] == NULL;
    free_count++;
    live[at] = NULL;
    for (size_t next = (at + 1) % LIVE_LIMIT; live[next] != NULL; next = (next + 1) % LIVE_LIMIT) {
        const void *moved = live[next]; /* an entry placed after it */
        live[next] = NULL;
        live[place_of(moved)] = moved;
    }
    pthread_mutex_unlock(&live_lock);
}

static void attach(uint16_t count) {
    ps_store_relaxed(&ps_probe_x_alloc_semaphore, count);
    ps_store_relaxed(&ps_probe_x_free_semaphore, count);
}

FRESH_TEST(without_a_tracer_nothing_is_sampled_or_told) {
    start_sampled(INTERVAL);
    work(200);
    CHECK_EQ(ps_demand_now(), 0);
    CHECK_EQ(alloc_count + free_count, 0);
}

FRESH_TEST(an_attached_tracer_is_told_of_samples_soon) {
    start_sampled(INTERVAL);
    void *old = ps_heap_alloc(100);
    work(100);
    attach(1);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_PROBES);
    uint64_t before = weight_bytes;
    double bytes = work(400);
    double deviation = sqrt(bytes * (double)INTERVAL);
    CHECK_CMP(fabs((double)(weight_bytes - before) - bytes), <=, SIGMAS * deviation);
    CHECK_CMP(alloc_count, >, 100);
    CHECK_CMP(alloc_count - free_count, <=, 2);
    CHECK_EQ(unknown_count, 0);
    ps_heap_free(old);
}

FRESH_TEST(a_loop_on_the_fast_path_is_sampled_too) {
    start_sampled(INTERVAL);
    for (size_t i = 0; i < 10000; i++) {
        ps_heap_free(ps_heap_alloc(64));
    }
    attach(1);
    for (size_t i = 0; i < 200000; i++) {
        ps_heap_free(ps_heap_alloc(64));
    }
    double bytes = 200000.0 * 64;
    CHECK_CMP(fabs((double)weight_bytes - bytes), <=, 6 * sqrt(bytes * (double)INTERVAL));
    CHECK_EQ(alloc_count, free_count);
}

FRESH_TEST(samples_of_a_detached_tracer_are_freed_in_silence) {
    start_sampled(INTERVAL);
    static void *blocks[2000];
    attach(1);
    work(20);
    for (size_t i = 0; i < 2000; i++) {
        blocks[i] = ps_heap_alloc(i % 20 == 0 ? 600 * KIB : i % 3 == 0 ? 12 * KIB : 200);
    }
    CHECK_CMP(alloc_count - free_count, >, 100);
    attach(0);
    work(20);
    CHECK_EQ(ps_demand_now(), 0);
    uint64_t told = alloc_count + free_count;
    for (size_t i = 0; i < 2000; i++) {
        size_t usable = ps_block_usable(blocks[i]);
        memset(blocks[i], 1, usable);
        blocks[i] = i % 2 == 0 ? ps_block_resize(blocks[i], 2 * usable) : blocks[i];
        ps_heap_free(blocks[i]);
    }
    work(100);
    CHECK_EQ(alloc_count + free_count, told);
    check_live_blocks(0);
}

FRESH_TEST(each_attachment_counts_anew) {
    start_sampled(INTERVAL);
    double bytes = 0;
    for (size_t i = 0; i < 100; i++) {
        attach(0);
        work(7 + i % 5);
        CHECK_EQ(ps_demand_now(), 0);
        attach(1);
        bytes += work(10 + i % 7);
        CHECK_EQ(ps_demand_now(), PS_DEMAND_PROBES);
    }
    /* A few blocks of each are not counted. */
    CHECK_CMP((double)weight_bytes, >, 0.8 * bytes);
    CHECK_CMP((double)weight_bytes, <, 1.1 * bytes);
    ps_heap_free(ps_heap_alloc(1));
    check_live_blocks(0);
}

FRESH_TEST(a_resized_sample_is_freed_and_made_again) {
    start_sampled(INTERVAL);
    attach(1);
    work(20);
    uint64_t before = alloc_count - free_count;
    void *block = ps_heap_alloc(4 * MIB);
    CHECK_EQ(alloc_count - free_count, before + 1);
    for (size_t size = 5 * MIB; size < 80 * MIB; size += 3 * MIB) {
        block = ps_block_resize(block, size);
        CHECK_EQ(alloc_count - free_count, before + 1);
    }
    ps_heap_free(block);
    CHECK_EQ(alloc_count - free_count, before);
    CHECK_EQ(unknown_count, 0);
}

FRESH_TEST(a_file_and_a_tracer_may_want_samples_at_once) {
    engine_config.profile = true;
    start_sampled(INTERVAL);
    work(10);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_FILE);
    CHECK_EQ(alloc_count, 0);
    attach(2);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_FILE | PS_DEMAND_PROBES);
    CHECK_CMP(alloc_count, >, 0);
    attach(0);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_FILE);
}

FRESH_TEST(other_modes_have_no_samples) {
    engine_config.harden = 2;
    start_sampled(INTERVAL);
    attach(1);
    work(50);
    CHECK_EQ(ps_demand_now(), 0);
    CHECK_EQ(alloc_count, 0);
}

FRESH_TEST(without_memory_for_the_table_there_are_no_samples) {
    start_sampled(INTERVAL);
    work(1);
    fake_os_fail_from(1);
    attach(1);
    for (size_t i = 0; i < 1000; i++) {
        ps_heap_free(ps_heap_alloc(64));
        fake_os_advance_ms(10);
        ps_maintenance_tick();
    }
    CHECK_EQ(ps_demand_now(), 0);
    fake_os_fail_from(0);
    work(10);
    CHECK_EQ(ps_demand_now(), 0);
}

FRESH_TEST(tracers_come_and_go_beside_threads) {
    start_sampled(INTERVAL);
    start_working();
    for (uint16_t i = 0; i < 60; i++) {
        attach(i % 2);
        while (ps_demand_now() != (i % 2 != 0 ? PS_DEMAND_PROBES : 0)) {
            work(1);
        }
        work(3);
    }
    attach(0);
    end_working();
    CHECK_CMP(alloc_count, >, 0);
    check_live_blocks(0);
}

FRESH_TEST(a_child_goes_on_as_its_parent_was) {
    start_sampled(INTERVAL);
    attach(1);
    work(20);
    uint64_t before = alloc_count;
    pid_t child = fork();
    REQUIRE(child >= 0);
    work(20);
    CHECK_CMP(alloc_count, >, before);
    unit_join_child(child);
}

UNIT_MAIN
