/* SPDX-License-Identifier: MIT */
/*
 * One thread frees the blocks of another one, on a processor that caches some of them.
 * For tests that run one by one, in an engine of their own.
 */
#ifndef TESTS_UNIT_PASSED_BLOCKS_H
#define TESTS_UNIT_PASSED_BLOCKS_H

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/cpu_cache.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#define BYTES 48
#define BLOCKS 64
#define TRIES 3000 /* more than a span and the windows before it have */

static void *blocks[BLOCKS];
static void *found;

static void allocate(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(BYTES);
    }
}

static void free_all(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i * 37 % BLOCKS]); /* all of them, none beside the last: no streak */
    }
    (void)engine_census(); /* returns gathered blocks */
}

static bool is_one_of_them(const void *block) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] == block) {
            return true;
        }
    }
    return false;
}

/* Allocates until a block comes that the other thread had; leaves it in `found`. */
static void find(void *unused) {
    static void *others[TRIES];
    size_t count = 0;
    (void)unused;
    found = NULL;
    while (found == NULL && count < TRIES) {
        void *block = ps_heap_alloc(BYTES);
        found = is_one_of_them(block) ? block : NULL;
        others[count++] = block;
    }
    while (count-- > 0) {
        if (others[count] != found) {
            ps_heap_free(others[count]);
        }
    }
}

static void free_found(void *unused) {
    (void)unused;
    ps_heap_free(found);
}

static size_t cached(void) { return ps_cpu_cache_blocks(ps_size_class_of(BYTES)); }

static struct worker owner;
static struct worker other;
static struct worker third; /* only adds to the number of threads */

/* One thread frees the blocks of the other, and asks for as many itself. */
static void pass_blocks(void) {
    for (int round = 0; round < 8; round++) {
        worker_do(&owner, allocate, NULL);
        worker_do(&other, free_all, NULL);
        worker_do(&other, find, NULL); /* refills ask for the class */
        worker_do(&other, free_found, NULL);
    }
    worker_do(&owner, allocate, NULL);
    worker_do(&other, free_all, NULL);
}

static void start_two_threads(void) {
    ps_engine_start();
    ps_cpu_may_be_first = true;
    ps_background_count_cpus();
    worker_start(&owner);
    worker_start(&other);
}

/* With the main thread and `third` there are more than two threads for the processor, and one that
 * may be idle. */
static void start_threads(void) {
    start_two_threads();
    worker_start(&third);
}

/* One thread frees the blocks of the other, until the processor caches some. */
static void set_up(void) {
    start_threads();
    worker_do(&third, acquire_heap, NULL);
    pass_blocks();
}

static void tear_down(void) {
    worker_stop(&third);
    worker_stop(&other);
    worker_stop(&owner);
    ps_heap_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_live_bytes, 0);
    CHECK_EQ(census.small_span_bytes, 0);
}

#endif
