// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The order in which a refill takes blocks, as far as memory depends on it. */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/refill.h"

ENGINE_HEAPS

#define BLOCK_BYTES 1024
#define BATCH 8
#define TURNS 200

struct batch {
    void *blocks[BATCH];
};

static void take_batch(void *argument) {
    struct batch *batch = argument;
    for (size_t i = 0; i < BATCH; i++) {
        batch->blocks[i] = ps_heap_alloc(BLOCK_BYTES);
        REQUIRE(batch->blocks[i] != NULL);
    }
}

static void free_batch(void *argument) {
    const struct batch *batch = argument;
    for (size_t i = 0; i < BATCH; i++) {
        ps_heap_free(batch->blocks[i]);
    }
    (void)engine_census(); /* returns gathered blocks */
}

/* Half of a span is 32 blocks, four times what the thread has at a time. */
FRESH_TEST(what_others_return_is_taken_before_fresh_blocks) {
    struct worker producer;
    struct batch batch;
    worker_start(&producer);
    worker_do(&producer, take_batch, &batch);
    uintptr_t base = (uintptr_t)batch.blocks[0] & ~(uintptr_t)(PS_GRANULE_BYTES - 1);
    free_batch(&batch);
    for (int turn = 0; turn < TURNS; turn++) {
        worker_do(&producer, take_batch, &batch);
        for (size_t i = 0; i < BATCH; i++) {
            CHECK_CMP((uintptr_t)batch.blocks[i] - base, <, PS_GRANULE_BYTES / 2);
        }
        free_batch(&batch);
    }
    worker_stop(&producer);
    CHECK_EQ(engine_census().small_live_bytes, 0);
}

/* A class that may use only one block gets no memory of a freed run. */
FRESH_TEST(the_first_span_of_a_class_is_clean) {
    ps_heap_free(ps_heap_alloc(MIB));
    uint64_t dirty_bytes = engine_census().cache_dirty_bytes;
    CHECK_CMP(dirty_bytes, >=, MIB);
    void *block = ps_heap_alloc(BLOCK_BYTES);
    CHECK_EQ(engine_census().cache_dirty_bytes, dirty_bytes);
    WHEN("the class needs a second one");
    void *rest[PS_GRANULE_BYTES / BLOCK_BYTES];
    for (size_t i = 0; i < PS_GRANULE_BYTES / BLOCK_BYTES; i++) {
        rest[i] = ps_heap_alloc(BLOCK_BYTES);
    }
    CHECK_CMP(engine_census().cache_dirty_bytes, <, dirty_bytes);
    for (size_t i = 0; i < PS_GRANULE_BYTES / BLOCK_BYTES; i++) {
        ps_heap_free(rest[i]);
    }
    ps_heap_free(block);
}

#define WIDE_BYTES 6000

static size_t wide_capacity; /* of a span */
static void *wide[4 * (PS_GRANULE_BYTES / WIDE_BYTES)];

/* So many full spans; the last one is the current one, and spent. */
static void fill_wide_spans(size_t spans) {
    ps_engine_start();
    const struct ps_size_class *class = &ps_size_classes[ps_size_class_of(WIDE_BYTES)];
    wide_capacity = (size_t)(class->limit - class->first);
    for (size_t i = 0; i < spans * wide_capacity; i++) {
        wide[i] = ps_heap_alloc(WIDE_BYTES);
        REQUIRE(wide[i] != NULL);
    }
}

FRESH_TEST(a_block_freed_into_a_full_span_is_taken_next_once_the_current_one_is_spent) {
    fill_wide_spans(3);
    GIVEN("a span with room for a while, and a current one without");
    void *last = wide[3 * wide_capacity - 1];
    ps_heap_free(last);
    ps_heap_free(wide[0]);
    CHECK_PTR_EQ(ps_heap_alloc(WIDE_BYTES), last);
    WHEN("a block of a third span is freed");
    ps_heap_free(wide[wide_capacity]);
    THEN("it is the next one, and then the one that has waited");
    CHECK_PTR_EQ(ps_heap_alloc(WIDE_BYTES), wide[wide_capacity]);
    CHECK_PTR_EQ(ps_heap_alloc(WIDE_BYTES), wide[0]);
    CHECK_EQ(engine_census().small_span_bytes, 3 * PS_GRANULE_BYTES);
}

static void free_second_span(void *unused) {
    (void)unused;
    for (size_t i = wide_capacity; i < 2 * wide_capacity; i++) {
        ps_heap_free(wide[i]);
    }
    (void)engine_census(); /* returns gathered blocks */
}

FRESH_TEST(a_spent_span_that_is_replaced_keeps_what_others_have_returned) {
    fill_wide_spans(2);
    GIVEN("a spent current span that others have freed entirely");
    worker_do_and_end(free_second_span, NULL);
    WHEN("a block of the other span is freed, and as many as there are free ones are allocated");
    ps_heap_free(wide[0]);
    CHECK_PTR_EQ(ps_heap_alloc(WIDE_BYTES), wide[0]);
    for (size_t i = 0; i < wide_capacity; i++) {
        CHECK(ps_heap_alloc(WIDE_BYTES) != NULL);
    }
    THEN("no fresh memory was needed");
    CHECK_EQ(engine_census().small_span_bytes, 2 * PS_GRANULE_BYTES);
}

UNIT_MAIN
