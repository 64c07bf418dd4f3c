/* SPDX-License-Identifier: MIT */
/*
 * Blocks that a test takes from the store itself (pools/engine/front/store.h): each of them is out
 * once. One thread, before which there is no front.
 */
#ifndef PS_TESTS_UNIT_STORE_BLOCKS_H
#define PS_TESTS_UNIT_STORE_BLOCKS_H

#include "pools/engine/front/store.h"
#include "pools/engine/front/window.h"
#include "tests/unit/engine.h"

#define BLOCKS_MOST 41000 /* of five slabs of the first class */

static char *out[BLOCKS_MOST]; /* that the store has handed out */
static size_t out_count;

static inline uint32_t class_of(size_t bytes) {
    ps_engine_start();
    return ps_size_class_of(bytes);
}

static inline size_t block_bytes_of(uint32_t class_index) {
    return ps_size_classes[class_index].block_bytes;
}

/* Blocks that are out by the bitmaps, or the slabs. */
static inline uint64_t used_of(uint32_t class_index) {
    return engine_census().classes[class_index].live_blocks;
}

static inline uint64_t slabs_of(uint32_t class_index) {
    return engine_census().classes[class_index].slabs;
}

/* A batch; adds a slab if there is none. Returns how many. */
static inline size_t take(uint32_t class_index, size_t most) {
    REQUIRE(out_count + most <= BLOCKS_MOST);
    void **to = (void **)&out[out_count];
    size_t count = ps_store_take(class_index, to, most, NULL, false);
    if (count == 0) {
        REQUIRE(ps_store_grow(class_index));
        count = ps_store_take(class_index, to, most, NULL, false);
    }
    CHECK_CMP(count, >, 0);
    CHECK_CMP(count, <=, most);
    out_count += count;
    return count;
}

static inline void take_many(uint32_t class_index, size_t count) {
    for (size_t taken = 0; taken < count;) {
        taken += take(class_index, ps_min(count - taken, PS_STORE_BATCH));
    }
}

static inline void give_last(uint32_t class_index, size_t count) {
    out_count -= count;
    ps_store_give(class_index, (void **)&out[out_count], count);
}

static inline void give_all(uint32_t class_index) {
    while (out_count != 0) {
        give_last(class_index, ps_min(out_count, PS_STORE_BATCH));
    }
}

static int compare(const void *left, const void *right) {
    uintptr_t a = (uintptr_t) * (char *const *)left;
    uintptr_t b = (uintptr_t) * (char *const *)right;
    return (a > b) - (a < b);
}

/* Sorts the blocks that are out. Each lies in a slab of the class, and none reaches into another.
 */
static inline void check_out(uint32_t class_index) {
    qsort(out, out_count, sizeof out[0], compare);
    for (size_t i = 0; i < out_count; i++) {
        struct ps_slab *slab = ps_slab_of(out[i]);
        CHECK_EQ(slab->run.kind, PS_RUN_SLAB);
        CHECK_EQ(slab->class_index, class_index);
        CHECK(ps_slab_has_block(slab, out[i]));
        CHECK(!ps_slab_is_free(slab, out[i]));
        CHECK(i == 0 || out[i] >= out[i - 1] + block_bytes_of(class_index));
    }
    CHECK_EQ(used_of(class_index), out_count);
}

static inline size_t take_range(uint32_t class_index, ps_range *range) {
    void *blocks[PS_STORE_BATCH];
    *range = ps_max(4096 / block_bytes_of(class_index), 1);
    size_t count = ps_store_take(class_index, blocks, 1, range, false);
    CHECK_EQ(count, 0);
    return ps_range_count(*range);
}

#endif
