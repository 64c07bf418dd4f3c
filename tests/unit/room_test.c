// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The bound on a heap's free memory: the excess goes to whichever thread needs it next. */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

ENGINE_HEAPS

#define BLOCK_BYTES 256
#define PEAK_BLOCKS 40000 /* 157 spans */
#define KEPT_ONE_OF 20

static struct live_block blocks[2][PEAK_BLOCKS];

static void grow(void *which) {
    struct live_block *mine = which;
    live_start_all(mine, PEAK_BLOCKS, BLOCK_BYTES);
}

static void shrink(void *which) {
    struct live_block *mine = which;
    for (size_t i = 0; i < PEAK_BLOCKS; i++) {
        if (i % KEPT_ONE_OF != 0) {
            live_end(&mine[i]);
        }
    }
}

static void end_all(void *which) {
    struct live_block *mine = which;
    live_end_all(mine, PEAK_BLOCKS);
}

/* Slow calls, in which time passes. */
static void be_active(void *unused) {
    (void)unused;
    for (int step = 0; step < 20; step++) {
        fake_os_advance_ms(100);
        for (int i = 0; i < 20; i++) {
            ps_heap_free(ps_heap_alloc(100 * KIB));
        }
    }
}

FRESH_TEST(blocks_freed_by_a_running_thread_serve_another) {
    struct worker first;
    struct worker second;
    worker_start(&first);
    worker_start(&second);
    worker_do(&second, be_active, NULL);
    worker_do(&first, grow, blocks[0]);
    uint64_t peak_bytes = engine_census().small_span_bytes;
    worker_do(&first, shrink, blocks[0]);
    CHECK_EQ(engine_census().orphan_span_count, 0);
    worker_do(&first, be_active, NULL);
    CHECK_CMP(engine_census().orphan_span_count * PS_GRANULE_BYTES, >, peak_bytes * 9 / 10);
    WHEN("the other thread has a peak of its own");
    worker_do(&second, grow, blocks[1]);
    CHECK_CMP(engine_census().small_span_bytes, <, peak_bytes * 12 / 10);
    worker_do(&second, end_all, blocks[1]);
    worker_do(&first, end_all, blocks[0]);
    worker_stop(&first);
    worker_stop(&second);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

/* Which of each 16 blocks. */
struct share {
    size_t from;
    size_t to;
};

static void free_share(void *argument) {
    const struct share *share = argument;
    for (size_t i = 0; i < PEAK_BLOCKS; i++) {
        if (i % 16 >= share->from && i % 16 < share->to) {
            live_end(&blocks[0][i]);
        }
    }
    (void)engine_census(); /* returns gathered blocks */
}

FRESH_TEST(remote_frees_count_without_a_notice) {
    struct worker owner;
    ps_engine_start();
    worker_start(&owner);
    worker_do(&owner, grow, blocks[0]);
    uint64_t peak_bytes = engine_census().small_span_bytes;
    free_share(&(struct share){0, 3});
    worker_do(&owner, be_active, NULL);
    CHECK_EQ(engine_census().orphan_span_count, 0);
    WHEN("more is returned, but not half of the rest");
    free_share(&(struct share){3, 9});
    worker_do(&owner, be_active, NULL);
    CHECK_CMP(engine_census().orphan_span_count * PS_GRANULE_BYTES, >, peak_bytes / 2);
    free_share(&(struct share){9, 16});
    worker_stop(&owner);
    be_active(NULL); /* returns the cached span */
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(a_heap_keeps_a_quarter_of_its_live_bytes) {
    struct worker other;
    worker_start(&other);
    worker_do(&other, be_active, NULL);
    grow(blocks[0]);
    for (size_t i = 0; i < PEAK_BLOCKS; i += 6) { /* a fifth of the live ones then */
        live_end(&blocks[0][i]);
    }
    be_active(NULL);
    CHECK_EQ(engine_census().orphan_span_count, 0);
    end_all(blocks[0]);
    worker_stop(&other);
    check_live_blocks(0);
}

FRESH_TEST(a_single_heap_keeps_all) {
    grow(blocks[0]);
    shrink(blocks[0]);
    be_active(NULL);
    CHECK_EQ(engine_census().orphan_span_count, 0);
    end_all(blocks[0]);
    check_live_blocks(0);
}

UNIT_MAIN
