/* SPDX-License-Identifier: MIT */
/*
 * Random calls on pools of all kinds, sizes and sources, compared with the model of pool_model.h.
 */
#include "tests/pools/pool_model.h"
#include "tests/unit/fresh.h"

#define STEPS (30000 / FRESH_SLOWNESS)

static struct model model;

/* Refuses every fifth chunk or so; counts its bytes. */
struct moody_source {
    struct ps_source source;
    bool is_moody;
    size_t held_bytes;
};

static void *moody_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct moody_source *moody = (struct moody_source *)source;
    if (moody->is_moody && unit_random() % 5 == 0) {
        errno = ENOMEM;
        return NULL;
    }
    void *chunk = ps_source_malloc()->alloc(ps_source_malloc(), bytes, align);
    moody->held_bytes += chunk != NULL ? bytes : 0;
    return chunk;
}

static void moody_free(struct ps_source *source, void *chunk, size_t bytes) {
    ((struct moody_source *)source)->held_bytes -= bytes;
    ps_source_malloc()->free(ps_source_malloc(), chunk, bytes);
}

static void run(size_t size, size_t align, size_t array_max, struct ps_pool_options options) {
    static struct ps_pool pool;
    struct moody_source moody = {{moody_alloc, moody_free}, model.may_fail, 0};
    if (options.chunks.max_bytes != 0) {
        options.chunks.source = &moody.source;
    }
    REQUIRE(ps_pool_init(&pool, size, align, &options));
    model.pool = &pool;
    model.size = size;
    model.align = align != 0 ? align : 1;
    model.max_items = options.max_items;
    model.is_unchecked = options.is_unchecked;
    model.array_max = array_max;
    model_run(&model, STEPS);
    ps_pool_destroy(&pool);
    CHECK_EQ(moody.held_bytes, 0);
}

static const size_t sizes[] = {1, 2, 3, 4, 6, 7, 8, 9, 16, 24, 40, 240, 1000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

TEST(usual_and_tiny_pools_do_as_the_model) {
    for (size_t i = 0; i < SIZES; i++) {
        run(sizes[i], 0, sizes[i] < 8 ? 1 : 6, (struct ps_pool_options){0});
    }
}

TEST(ordered_pools_do_as_the_model) {
    for (size_t i = 0; i < SIZES; i++) {
        run(sizes[i], 0, i % 2 == 0 ? 6 : 200, (struct ps_pool_options){.is_ordered = true});
    }
}

TEST(unchecked_pools_do_as_the_model) {
    for (size_t i = 0; i < SIZES; i++) {
        run(sizes[i], 0, i % 2 == 0 ? 6 : 1, (struct ps_pool_options){.is_unchecked = true});
    }
    run(24, 256, 6, (struct ps_pool_options){.is_unchecked = true});
}

TEST(pools_of_many_short_chunks_do_as_the_model) {
    for (size_t i = 0; i < SIZES; i++) {
        struct ps_pool_options options = {.chunks = {.first_bytes = 700, .max_bytes = 5000}};
        run(sizes[i], 0, sizes[i] < 8 ? 1 : 20, options);
        options.is_ordered = true;
        run(sizes[i], 0, 20, options);
    }
}

TEST(aligned_pools_do_as_the_model) {
    for (size_t align = 1; align <= 4096; align *= 4) {
        struct ps_pool_options options = {0};
        run(24, align, 6, options);
        options.is_ordered = true;
        run(24, align, 6, options);
    }
}

TEST(bounded_pools_do_as_the_model) {
    for (size_t i = 0; i < SIZES; i++) {
        struct ps_pool_options options = {.max_items = 1000};
        run(sizes[i], 0, 1, options);
        options.is_ordered = true;
        run(sizes[i], 0, 1, options);
        run(sizes[i], 0, 9, options);
    }
}

TEST(pools_survive_a_source_that_refuses_at_times) {
    model.may_fail = true;
    for (size_t i = 0; i < SIZES; i++) {
        struct ps_pool_options options = {.chunks = {.first_bytes = 256, .max_bytes = 20000}};
        run(sizes[i], 0, sizes[i] < 8 ? 1 : 30, options);
        options.is_ordered = true;
        run(sizes[i], 0, 30, options);
    }
    model.may_fail = false;
}

UNIT_MAIN
