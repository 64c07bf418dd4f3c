/* SPDX-License-Identifier: MIT */
/*
 * Random calls on a pool, compared with a trivial model: a list of live arrays (of one object
 * mostly), each filled with a byte of its own from beginning to end. Included by pool tests.
 */
#ifndef PS_TESTS_POOLS_POOL_MODEL_H
#define PS_TESTS_POOLS_POOL_MODEL_H

#include "tests/unit/unit.h"

#include <errno.h>
#include <poolshim/pool.h>

#define MODEL_LIVE_MAX 3000

struct model_array {
    unsigned char *memory;
    size_t count;
    unsigned char fill;
};

struct model {
    struct ps_pool *pool;
    size_t size;
    size_t align;
    size_t max_items;
    size_t array_max;  /* 1: single objects only */
    bool may_fail;     /* the source refuses at times */
    bool is_unchecked; /* the pool is */
    size_t live_count; /* arrays */
    size_t object_count;
    struct model_array live[MODEL_LIVE_MAX];
};

/* Every second object of a pool is padded: only `size` bytes of each are the program's. */
static void model_fill(const struct model *model, const struct model_array *array) {
    for (size_t i = 0; i < array->count; i++) {
        memset(array->memory + i * model->pool->stride, array->fill, model->size);
    }
}

static void model_verify(const struct model *model, const struct model_array *array) {
    for (size_t i = 0; i < array->count; i++) {
        const unsigned char *object = array->memory + i * model->pool->stride;
        for (size_t byte = 0; byte < model->size; byte++) {
            if (object[byte] != array->fill) {
                unit_fail(__FILE__, __LINE__, "byte %zu of object %zu was overwritten", byte, i);
                return;
            }
        }
    }
}

static void model_alloc(struct model *model) {
    if (model->live_count == MODEL_LIVE_MAX) {
        return;
    }
    size_t count = unit_random() % 4 != 0 ? 1 : 1 + unit_random() % model->array_max;
    struct model_array *array = &model->live[model->live_count];
    errno = 0;
    unsigned way = (unsigned)(unit_random() % 8);
    void *memory = count > 1  ? ps_pool_alloc_n(model->pool, count)
                   : way == 0 ? ps_pool_try_alloc(model->pool)
                              : ps_pool_alloc(model->pool);
    if (memory == NULL) {
        CHECK_EQ(errno, ENOMEM);
        bool is_full = model->max_items != 0 && model->object_count + count > model->max_items;
        bool has_arrays = model->max_items != 0 && model->array_max > 1;
        CHECK(is_full || has_arrays || model->may_fail || (way == 0 && count == 1));
        return;
    }
    CHECK_EQ((uintptr_t)memory % model->align, 0);
    CHECK(ps_pool_owns(model->pool, memory));
    *array = (struct model_array){(unsigned char *)memory, count, (unsigned char)unit_random()};
    model_fill(model, array);
    model->live_count++;
    model->object_count += count;
    CHECK(model->max_items == 0 || model->object_count <= model->max_items);
}

static void model_free(struct model *model, size_t index) {
    struct model_array array = model->live[index];
    model_verify(model, &array);
    model->live[index] = model->live[--model->live_count];
    model->object_count -= array.count;
    errno = EDOM;
    if (model->is_unchecked && array.count == 1 && unit_random() % 4 != 0) {
        ps_pool_free_unchecked(model->pool, array.memory);
    } else if (array.count == 1 && unit_random() % 2 == 0) {
        ps_pool_free(model->pool, array.memory);
    } else {
        ps_pool_free_n(model->pool, array.memory, array.count);
    }
    CHECK_EQ(errno, EDOM);
}

/* Newest, oldest, any: what the inline paths tell apart. */
static void model_free_one(struct model *model) {
    if (model->live_count > 0) {
        size_t order = unit_random() % 4;
        model_free(model, order == 0   ? 0
                          : order == 1 ? model->live_count - 1
                                       : unit_random() % model->live_count);
    }
}

static void model_count(void *object, void *context) {
    (void)object;
    ++*(size_t *)context;
}

static void model_rare(struct model *model) {
    struct ps_pool_stats stats;
    switch (unit_random() % 5) {
    case 0:
        ps_pool_trim_to(model->pool, 0);
        break;
    case 1:
        ps_pool_stats(model->pool, &stats);
        CHECK_EQ(stats.used_count, model->object_count);
        CHECK_CMP(stats.total_bytes, >=, stats.used_count * model->size);
        break;
    case 2: {
        size_t each = 0;
        if (ps_pool_each(model->pool, model_count, &each)) {
            CHECK_EQ(each, model->object_count);
        }
        break;
    }
    case 3:
        if (unit_random() % 8 == 0) {
            ps_pool_reset(model->pool);
            model->live_count = 0;
            model->object_count = 0;
        }
        break;
    default:
        CHECK(!ps_pool_owns(model->pool, model));
        CHECK(!ps_pool_owns(model->pool, (const void *)(uintptr_t)unit_random()));
        break;
    }
}

/* Phases of growth and of decline. At the end everything is freed and trimmed: nothing is left. */
__attribute__((unused)) static void model_run(struct model *model, size_t steps) {
    model->live_count = 0;
    model->object_count = 0;
    uint64_t growing = 5;
    for (size_t step = 0; step < steps; step++) {
        uint64_t dice = unit_random();
        if (dice % 1024 == 0) {
            growing = 2 + unit_random() % 5;
        } else if (dice % 257 == 0) {
            model_rare(model);
        } else if (dice % 8 < growing) {
            model_alloc(model);
        } else {
            model_free_one(model);
        }
    }
    while (model->live_count > 0) {
        model_free(model, unit_random() % model->live_count);
    }
    struct ps_pool_stats stats;
    ps_pool_trim_to(model->pool, 0);
    ps_pool_stats(model->pool, &stats);
    CHECK_EQ(stats.used_count, 0);
    CHECK_EQ(stats.total_bytes, 0);
    CHECK_EQ(stats.chunk_count, 0);
}

#endif
