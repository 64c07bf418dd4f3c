// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes in the heap layer: spans of ended threads serve their own node.
 */
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/span.h"
#include "tests/unit/engine.h"
#include "tests/unit/set_nodes.h"
#include "tests/unit/worker.h"

ENGINE_HEAPS

#define PAGE_BYTES (4 * KIB)

/* ---- spans ---- */

enum { SPAN_BLOCKS = 600, BLOCK_BYTES = 1024 };

static void *of_ended[SPAN_BLOCKS];
static void *of_small;

static void allocate_all(void *unused) {
    (void)unused;
    for (size_t i = 0; i < SPAN_BLOCKS; i++) {
        of_ended[i] = ps_heap_alloc(BLOCK_BYTES);
    }
}

static void free_half(void *unused) {
    (void)unused;
    for (size_t i = 0; i < SPAN_BLOCKS; i += 2) {
        ps_heap_free(of_ended[i]);
    }
    (void)engine_census(); /* returns what this thread has only gathered */
}

static void allocate_one(void *bytes) { of_small = ps_heap_alloc((size_t)(uintptr_t)bytes); }

/* Spans of a thread of node 0 that has ended. */
static void start_with_orphans(void) {
    struct worker ended;
    ps_engine_start();
    set_nodes();
    fake_os_set_cpu(0);
    worker_start(&ended);
    worker_do(&ended, allocate_all, NULL);
    worker_stop(&ended);
}

static size_t orphans_left(void) {
    size_t orphans = 0;
    for (size_t i = 1; i < SPAN_BLOCKS; i += 2) {
        orphans += ps_load_relaxed(&ps_span_at(of_ended[i])->x_owner) == PS_KEY_ORPHAN;
    }
    return orphans;
}

FRESH_TEST(a_thread_of_another_node_adopts_no_span_by_its_frees) {
    struct worker freeing;
    start_with_orphans();
    worker_start(&freeing);
    fake_os_set_cpu(1);
    worker_do(&freeing, allocate_one, (void *)16);
    worker_do(&freeing, free_half, NULL);
    CHECK_EQ(orphans_left(), SPAN_BLOCKS / 2);
    worker_stop(&freeing);
}

FRESH_TEST(a_thread_of_this_node_adopts_spans_by_its_frees) {
    struct worker freeing;
    start_with_orphans();
    worker_start(&freeing);
    worker_do(&freeing, allocate_one, (void *)16);
    worker_do(&freeing, free_half, NULL);
    CHECK_CMP(orphans_left(), <, SPAN_BLOCKS / 2);
    worker_stop(&freeing);
}

FRESH_TEST(orphans_of_another_node_serve_while_memory_is_short) {
    start_with_orphans();
    fake_os_set_cpu(1);
    free_half(NULL);
    allocate_one((void *)BLOCK_BYTES);
    CHECK_EQ(ps_span_at(of_small)->run.node, 1);
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)PS_PRESSURE_NEAR);
    for (size_t i = 0; i < SPAN_BLOCKS / 2; i++) {
        allocate_one((void *)BLOCK_BYTES);
    }
    CHECK_EQ(ps_span_at(of_small)->run.node, 0);
}

FRESH_TEST(orphans_of_another_node_serve_when_no_more_memory_is_to_be_had) {
    start_with_orphans();
    fake_os_set_cpu(1);
    free_half(NULL);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE) | FAKE_OS_BIT(FAKE_OS_PROTECT));
    while (ps_page_cache_take(1, 1) != NULL) { /* ends: the addresses are used up */
    }
    allocate_one((void *)BLOCK_BYTES);
    REQUIRE(of_small != NULL);
    CHECK_EQ(ps_span_at(of_small)->run.node, 0);
}

UNIT_MAIN
