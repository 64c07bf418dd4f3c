/* SPDX-License-Identifier: MIT */
/*
 * The families that take chunks from a source, as a table of functions that make a pool, use it and
 * give its memory back. Included by tests of all families.
 */
#ifndef PS_TESTS_POOLS_FAMILY_ROWS_H
#define PS_TESTS_POOLS_FAMILY_ROWS_H

#include <poolshim/fifo.h>
#include <poolshim/frames.h>
#include <poolshim/intrusive.h>
#include <poolshim/pool.h>
#include <poolshim/pools.h>
#include <poolshim/region.h>
#include <poolshim/ring.h>
#include <poolshim/slots.h>
#include <poolshim/stack.h>
#include <poolshim/tlsf.h>

#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

enum { ROUNDS = 40, FEW = 10, MANY = 4000, INSTANCES = 100, BYTES = 1000 };

static void *blocks[MANY];

struct row {
    const char *name;
    void *(*make)(const struct ps_chunk_options *chunks);
    void (*use)(void *pool, size_t count); /* makes `count` objects */
    void (*give)(void *pool, size_t count);
    void (*end)(void *pool);
    size_t times;
};

/* ---- pool ---- */

static void *make_pool(const struct ps_chunk_options *chunks, size_t size, bool is_ordered) {
    struct ps_pool *pool = malloc(sizeof *pool);
    struct ps_pool_options options = {.chunks = *chunks, .is_ordered = is_ordered};
    REQUIRE(pool != NULL && ps_pool_init(pool, size, 0, &options));
    return pool;
}

static void *usual_make(const struct ps_chunk_options *chunks) {
    return make_pool(chunks, 64, false);
}

static void *ordered_make(const struct ps_chunk_options *chunks) {
    return make_pool(chunks, 64, true);
}

static void *tiny_make(const struct ps_chunk_options *chunks) {
    return make_pool(chunks, 2, false);
}

static void pool_use(void *pool, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_pool_alloc(pool);
        REQUIRE(blocks[i] != NULL);
    }
}

static void pool_give(void *pool, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_pool_free(pool, blocks[i]);
    }
    ps_pool_trim_to(pool, 0);
}

static void pool_give_reset(void *pool, size_t count) {
    (void)count;
    ps_pool_reset(pool);
}

static void pool_give_both(void *pool, size_t count) {
    pool_give_reset(pool, count);
    ps_pool_trim_to(pool, 0);
}

static void pool_end(void *pool) {
    ps_pool_destroy(pool);
    free(pool);
}

/* ---- pools ---- */

static void *sizes_make(const struct ps_chunk_options *chunks) {
    struct ps_pools *pools = malloc(sizeof *pools);
    REQUIRE(pools != NULL);
    ps_pools_init(pools, chunks);
    return pools;
}

static void sizes_use(void *pools, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_pools_alloc(pools, 64);
        REQUIRE(blocks[i] != NULL);
    }
}

static void sizes_give(void *pools, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_pools_free(pools, blocks[i], 64);
    }
    ps_pools_trim_to(pools, 0);
}

static void sizes_end(void *pools) {
    ps_pools_destroy(pools);
    free(pools);
}

/* ---- region, frames ---- */

static void *region_make(const struct ps_chunk_options *chunks) {
    struct ps_region_options options = {.chunks = *chunks};
    return ps_region_create(&options);
}

static void *region_make_retaining(const struct ps_chunk_options *chunks) {
    struct ps_region_options options = {.chunks = *chunks, .retain_bytes = 16384};
    return ps_region_create(&options);
}

static void region_use(void *region, size_t count) {
    for (size_t i = 0; i < count; i++) {
        REQUIRE(ps_region_alloc(region, BYTES) != NULL);
    }
}

static void region_give(void *region, size_t count) {
    (void)count;
    ps_region_reset(region);
    ps_region_trim_to(region, 0);
}

static void region_give_reset(void *region, size_t count) {
    (void)count;
    ps_region_reset(region);
}

static void region_end(void *region) { ps_region_destroy(region); }

static void *frames_make(const struct ps_chunk_options *chunks) {
    struct ps_region_options options = {.chunks = *chunks};
    return ps_frames_create(3, &options);
}

static void frames_use(void *frames, size_t count) {
    for (unsigned age = 0; age < 3; age++) {
        region_use(ps_frames_before(frames, age), count);
    }
}

static void frames_give(void *frames, size_t count) {
    (void)count;
    for (unsigned i = 0; i < 3; i++) {
        ps_frames_next(frames);
    }
    ps_frames_trim_to(frames, 0);
}

static void frames_end(void *frames) { ps_frames_destroy(frames); }

/* ---- stack ---- */

static void *stack_make(const struct ps_chunk_options *chunks) {
    struct ps_stack_options options = {.chunks = *chunks};
    return ps_stack_create(&options);
}

static void stack_use(void *stack, size_t count) {
    for (size_t i = 0; i < count; i++) {
        REQUIRE(ps_stack_alloc(stack, count == FEW ? BYTES : (size_t)10 * BYTES) != NULL);
    }
}

static void stack_give(void *stack, size_t count) {
    (void)count;
    ps_stack_reset(stack);
    ps_stack_trim_to(stack, 0);
}

static void stack_end(void *stack) { ps_stack_destroy(stack); }

/* ---- fifo ---- */

static void *fifo_make(const struct ps_chunk_options *chunks) {
    struct ps_fifo_options options = {.chunks = *chunks};
    options.chunks.first_bytes = 4096;
    return ps_fifo_create(&options);
}

static void fifo_use(void *fifo, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_fifo_alloc(fifo, BYTES);
        REQUIRE(blocks[i] != NULL);
    }
}

static void fifo_give(void *fifo, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_fifo_free(fifo, blocks[i]);
    }
    ps_fifo_trim_to(fifo, 0);
}

static void fifo_end(void *fifo) { ps_fifo_destroy_now(fifo); }

/* ---- ring ---- */

static void *ring_make(const struct ps_chunk_options *chunks) {
    struct ps_ring_options options = {.chunks = *chunks};
    options.chunks.first_bytes = 4096;
    return ps_ring_create(&options);
}

static void ring_use(void *ring, size_t count) {
    blocks[0] = ps_ring_begin(ring);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(ps_ring_alloc(ring, BYTES / 2) != NULL);
    }
}

static void ring_give(void *ring, size_t count) {
    (void)count;
    ps_ring_seal(ring);
    ps_ring_release(blocks[0]);
    ps_ring_trim_to(ring, 0);
}

static void ring_end(void *ring) { ps_ring_destroy(ring); }

/* ---- slots ---- */

static uint64_t handles[MANY];

static void *slots_make(const struct ps_chunk_options *chunks) {
    struct ps_slots *slots = malloc(sizeof *slots);
    struct ps_slots_options options = {.chunks = *chunks};
    REQUIRE(slots != NULL && ps_slots_init(slots, BYTES, 0, &options));
    return slots;
}

static void slots_use(void *slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *object;
        handles[i] = ps_slots_insert(slots, &object);
        REQUIRE(handles[i] != 0);
    }
}

static void slots_give(void *slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        REQUIRE(ps_slots_remove(slots, handles[i]));
    }
    ps_slots_trim_to(slots, 0);
}

static void slots_end(void *slots) {
    ps_slots_destroy(slots);
    free(slots);
}

/* ---- tlsf ---- */

static void *tlsf_make(const struct ps_chunk_options *chunks) {
    struct ps_tlsf_options options = {.chunks = *chunks};
    return ps_tlsf_create(&options);
}

static void tlsf_use(void *tlsf, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_tlsf_alloc(tlsf, (size_t)10 * BYTES);
        REQUIRE(blocks[i] != NULL);
    }
}

static void tlsf_give(void *tlsf, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_tlsf_free(tlsf, blocks[i]);
    }
    ps_tlsf_trim_to(tlsf, 0);
}

static void tlsf_end(void *tlsf) { ps_tlsf_destroy(tlsf); }

/* ---- intrusive ---- */

static void *intrusive_make(const struct ps_chunk_options *chunks) {
    struct ps_intrusive *pool = malloc(sizeof *pool);
    struct ps_intrusive_options options = {.chunks = *chunks, .bytes = 64};
    REQUIRE(pool != NULL && ps_intrusive_init(pool, &options));
    return pool;
}

static void intrusive_use(void *pool, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_intrusive_alloc(pool);
        REQUIRE(blocks[i] != NULL);
    }
}

static void intrusive_give(void *pool, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_intrusive_drop(blocks[i]);
    }
    ps_intrusive_reset(pool);
}

static void intrusive_end(void *pool) {
    ps_intrusive_destroy(pool);
    free(pool);
}

static const struct row rows[] = {
    {"pool", usual_make, pool_use, pool_give, pool_end, 1},
    {"pool, reset", usual_make, pool_use, pool_give_reset, pool_end, 2},
    {"pool, reset and trim", usual_make, pool_use, pool_give_both, pool_end, 1},
    {"ordered pool", ordered_make, pool_use, pool_give, pool_end, 1},
    {"tiny pool", tiny_make, pool_use, pool_give, pool_end, 1},
    {"sizes", sizes_make, sizes_use, sizes_give, sizes_end, 1},
    {"region", region_make, region_use, region_give, region_end, 1},
    {"region, reset", region_make, region_use, region_give_reset, region_end, 1},
    {"region that retains 16 KiB", region_make_retaining, region_use, region_give_reset, region_end,
     2},
    {"frames", frames_make, frames_use, frames_give, frames_end, 1},
    {"stack", stack_make, stack_use, stack_give, stack_end, 1},
    {"fifo", fifo_make, fifo_use, fifo_give, fifo_end, 1},
    {"ring", ring_make, ring_use, ring_give, ring_end, 1},
    {"slots", slots_make, slots_use, slots_give, slots_end, 1},
    {"tlsf", tlsf_make, tlsf_use, tlsf_give, tlsf_end, 1},
    {"intrusive pool", intrusive_make, intrusive_use, intrusive_give, intrusive_end, 1},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static void check_bound(const struct row *row, const char *when, size_t held, size_t bound) {
    if (held > bound) {
        unit_fail(__FILE__, __LINE__, "%s, %s: %zu bytes, more than %zu", row->name, when, held,
                  bound);
    }
}

#endif
