// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Blocks that one thread frees for another: all of them return, in batches, and can be used. */
#include "pools/engine/heap/remote.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

ENGINE_HEAPS
ENGINE_LONG_CLASSES

#define BLOCK_LIMIT 40000

static struct live_block blocks[BLOCK_LIMIT];

struct order {
    size_t count;
    size_t bytes; /* 0: random sizes */
    int kind; /* of freeing: 0 ascending, 1 descending, 2 random, 3 every other, then the rest */
};

static void allocate_all(void *argument) {
    const struct order *order = argument;
    uint64_t state = 99;
    for (size_t i = 0; i < order->count; i++) {
        size_t bytes = order->bytes != 0 ? order->bytes : engine_random(&state) % 3000;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        REQUIRE(blocks[i].address != NULL);
    }
}

static size_t index_of(const struct order *order, size_t step, uint64_t *state) {
    switch (order->kind) {
    case 0:
        return step;
    case 1:
        return order->count - 1 - step;
    case 2:
        return engine_random(state) % order->count;
    default:
        return step < order->count / 2 ? 2 * step : 2 * (step - order->count / 2) + 1;
    }
}

static void free_all(void *argument) {
    const struct order *order = argument;
    uint64_t state = 55;
    for (size_t step = 0; step < order->count; step++) {
        struct live_block *live = &blocks[index_of(order, step, &state)];
        if (live->address != NULL) {
            live_end(live);
        }
    }
    live_end_all(blocks, order->count);
    (void)engine_census(); /* books what this thread has only gathered */
}

static void check_no_live_blocks(void *unused) {
    (void)unused;
    check_live_blocks(0);
}

static void trim(void *unused) {
    (void)unused;
    ps_heap_trim(0);
}

/* One thread allocates, the other frees, several times over: the owner reuses what returned. */
static void check_round_trips(struct order order) {
    struct worker owner;
    struct worker freer;
    worker_start(&owner);
    worker_start(&freer);
    uint64_t span_bytes = 0;
    uint64_t freed_before = engine_census().remote_free_count;
    for (int round = 0; round < 4; round++) {
        worker_do(&owner, allocate_all, &order);
        uint64_t now = engine_census().small_span_bytes;
        span_bytes = round == 0 ? now : span_bytes;
        CHECK_CMP(now, <=, span_bytes * 5 / 4 + 2 * PS_GRANULE_BYTES);
        worker_do(&freer, free_all, &order);
    }
    worker_do(&owner, trim, NULL);
    worker_do(&owner, check_no_live_blocks, NULL);
    struct ps_census census = engine_census();
    CHECK_EQ(census.small_span_bytes, 0); /* all drained */
    CHECK_EQ(census.remote_free_count - freed_before, 4 * order.count);
    worker_stop(&freer);
    worker_stop(&owner);
    check_live_blocks(0);
}

FRESH_TEST(blocks_of_one_size_freed_elsewhere_come_back_in_any_order) {
    ps_engine_start();
    for (int kind = 0; kind < 4; kind++) {
        check_round_trips((struct order){5000, 40, kind});
    }
}

FRESH_TEST(the_smallest_and_the_largest_blocks_come_back_too) {
    ps_engine_start();
    for (int kind = 0; kind < 4; kind++) {
        check_round_trips((struct order){20000, 8, kind});
        check_round_trips((struct order){60, 64 * KIB, kind});
    }
}

FRESH_TEST(blocks_of_random_sizes_come_back_in_any_order) {
    ps_engine_start();
    for (int kind = 0; kind < 4; kind++) {
        check_round_trips((struct order){5000, 0, kind});
    }
}

/* Hand-overs that it takes one thread to free all blocks of another. */
static uint64_t batches_of(struct order order) {
    struct worker owner;
    worker_start(&owner);
    worker_do(&owner, allocate_all, &order);
    uint64_t before = engine_census().remote_batch_count;
    worker_do_and_end(free_all, &order);
    uint64_t batches = engine_census().remote_batch_count - before;
    worker_stop(&owner);
    check_live_blocks(0);
    return batches;
}

FRESH_TEST(frees_are_transferred_in_batches_and_sequences_whole) {
    ps_engine_start();
    /* in order: two or three batches a span of 1023 blocks; else at least some blocks each */
    CHECK_CMP(batches_of((struct order){20000, 64, 0}), <, 70);
    CHECK_CMP(batches_of((struct order){20000, 64, 1}), <, 70);
    CHECK_CMP(batches_of((struct order){20000, 64, 3}), <, 20000 / 16);
    CHECK_CMP(batches_of((struct order){8000, 64, 2}), <, 8000 / 16);
}

static char *of_span[200]; /* a block each, from as many spans */

static void allocate_of_each_span(void *argument) {
    const size_t *count = argument;
    for (size_t i = 0; i < *count; i++) {
        of_span[i] = ps_heap_alloc(4096);
        for (int rest = 1; rest < 16; rest++) {
            CHECK(ps_heap_alloc(4096) != NULL);
        }
    }
}

FRESH_TEST(single_blocks_of_many_spans_wait_and_their_second_free_is_found) {
    size_t count = sizeof of_span / sizeof of_span[0];
    struct worker owner;
    ps_engine_start();
    worker_start(&owner);
    worker_do(&owner, allocate_of_each_span, &count);
    ps_heap_free(ps_heap_alloc(1));
    (void)engine_census();
    uint64_t batches = engine_census().remote_batch_count;
    for (size_t i = 0; i < count; i++) {
        ps_heap_free(of_span[i]);
    }
    for (size_t i = 0; i < count; i += 7) {
        CHECK_ABORTS(ps_heap_free(of_span[i]), "double free of");
    }
    WHEN("one of them is written to while it is pending");
    char *last = of_span[count - 1];
    *(uintptr_t *)last ^= (uintptr_t)1 << 60;
    CHECK_ABORTS(ps_remote_flush(ps_thread.own), "write after free to");
    *(uintptr_t *)last ^= (uintptr_t)1 << 60;
    CHECK_EQ(engine_census().remote_batch_count - batches, count);
    CHECK_EQ(engine_census().remote_free_count, count);
    worker_stop(&owner);
}

FRESH_TEST(full_spans_are_used_again_when_an_eighth_is_back) {
    struct worker owner;
    struct order order = {20000, 64, 0};
    worker_start(&owner);
    GIVEN("an owner whose spans are all full");
    worker_do(&owner, allocate_all, &order);
    uint64_t span_bytes = engine_census().small_span_bytes;
    WHEN("another thread frees a fifth of the blocks");
    struct order fifth = order;
    struct live_block *kept = malloc(sizeof blocks);
    memcpy(kept, blocks, sizeof blocks);
    for (size_t i = 0; i < order.count; i++) {
        if (i % 5 != 0) {
            blocks[i].address = NULL;
        }
    }
    worker_do_and_end(free_all, &fifth);
    THEN("the owner gets that many again without a new span");
    struct order again = {3500, 64, 0};
    worker_do(&owner, allocate_all, &again);
    CHECK_CMP(engine_census().small_span_bytes, <=, span_bytes);
    worker_do_and_end(free_all, &again);
    for (size_t i = 0; i < order.count; i++) {
        if (i % 5 != 0) {
            live_end(&kept[i]);
        }
    }
    free(kept);
    (void)engine_census();
    worker_stop(&owner);
    check_live_blocks(0);
}

FRESH_TEST(a_partial_batch_returns_when_its_thread_ends) {
    struct worker owner;
    struct order order = {100, 500, 2};
    worker_start(&owner);
    worker_do(&owner, allocate_all, &order);
    worker_do_and_end(free_all, &order);
    worker_do(&owner, check_no_live_blocks, NULL);
    worker_stop(&owner);
    check_live_blocks(0);
}

/* Like free_all, but without the census, which settles everything at once. */
static void free_quietly(void *argument) {
    live_end_all(blocks, ((const struct order *)argument)->count);
}

static void make_slow_calls(void *unused) {
    (void)unused;
    for (int i = 0; i < 40; i++) { /* each large block is a slow call; a few read the clock */
        ps_heap_free(ps_heap_alloc(600 * KIB));
    }
}

FRESH_TEST(a_partial_batch_returns_periodically) {
    struct worker owner;
    struct worker freer;
    struct order order = {20, 500, 0};
    worker_start(&owner);
    worker_start(&freer);
    worker_do(&freer, make_slow_calls, NULL);
    worker_do(&owner, allocate_all, &order);
    worker_do(&freer, free_quietly, &order);
    fake_os_advance_ms(1000);
    worker_do(&freer, make_slow_calls, NULL);
    worker_do(&owner, check_no_live_blocks, NULL);
    worker_stop(&freer);
    worker_stop(&owner);
}

FRESH_TEST(large_blocks_may_be_freed_anywhere) {
    struct order order = {30, 300 * KIB, 2};
    worker_do_and_end(allocate_all, &order);
    free_all(&order);
    order.bytes = 5 * MIB;
    order.count = 5;
    worker_do_and_end(allocate_all, &order);
    worker_do_and_end(free_all, &order);
    check_live_blocks(0);
}

UNIT_MAIN
