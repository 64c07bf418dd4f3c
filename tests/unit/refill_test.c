// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The order in which a refill takes blocks, as far as memory depends on it. */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/refill.h"

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
    (void)engine_census(); /* returns what was only gathered */
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

/* Of the memory of a freed run nothing moves to a class that may use one block. */
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

UNIT_MAIN
