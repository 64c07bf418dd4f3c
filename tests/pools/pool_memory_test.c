/* SPDX-License-Identifier: MIT */
/*
 * Pools of objects of one size: how memory comes, goes back and is accounted for. The other claims
 * of poolshim/pool.h are in pool_test.c.
 */
#include "tests/unit/unit.h"

#include "pools/common/debug.h"
#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"

#include <errno.h>
#include <poolshim/pool.h>

#define COUNT 4000

static void *objects[COUNT];
static const size_t sizes[] = {1, 4, 8, 24, 240};

static struct ps_pool_stats stats_of(struct ps_pool *pool) {
    struct ps_pool_stats stats;
    ps_pool_stats(pool, &stats);
    return stats;
}

static void fill_all(struct ps_pool *pool) {
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = ps_pool_alloc(pool);
        REQUIRE(objects[i] != NULL);
    }
}

/* Runs the body for pools of each size, usual and ordered. */
#define EACH_POOL(name, settings)                                                                  \
    for (size_t kind_ = 0; kind_ < 10; kind_++)                                                    \
        for (struct ps_pool name, *once_ = &name; once_ != NULL;                                   \
             ps_pool_destroy(&name), once_ = NULL)                                                 \
            if (ps_pool_init(                                                                      \
                    &name, sizes[kind_ / 2], 0,                                                    \
                    &(struct ps_pool_options){.is_ordered = kind_ % 2 != 0, .chunks = settings}))

TEST(trim_gives_back_the_chunks_without_live_objects) {
    EACH_POOL(pool, {.max_bytes = 4096}) {
        fill_all(&pool);
        size_t full_bytes = stats_of(&pool).total_bytes;
        CHECK_EQ(ps_pool_trim_to(&pool, 0), 0);
        for (size_t i = 0; i < COUNT; i++) {
            if (i != COUNT / 2) {
                ps_pool_free(&pool, objects[i]);
            }
        }
        *(char *)objects[COUNT / 2] = 77;
        size_t given = ps_pool_trim_to(&pool, 0);
        CHECK_EQ(given, is_malloc_mode() ? 0 : full_bytes - stats_of(&pool).total_bytes);
        CHECK_CMP(stats_of(&pool).total_bytes, <=, 4096);
        CHECK_EQ(stats_of(&pool).used_count, 1);
        CHECK_EQ(*(char *)objects[COUNT / 2], 77);
        CHECK(ps_pool_owns(&pool, objects[COUNT / 2]));
        fill_all(&pool);
        CHECK_EQ(stats_of(&pool).used_count, COUNT + 1);
    }
}

TEST(chunks_that_were_given_back_are_not_used) {
    NEEDS_CHUNKS();
    EACH_POOL(pool, ((struct ps_chunk_options){.first_bytes = 16384, .max_bytes = 16384})) {
        static void *more[3 * 16384];
        size_t count = 3 * 16384 / sizes[kind_ / 2];
        for (size_t i = 0; i < count; i++) {
            more[i] = ps_pool_alloc(&pool);
            REQUIRE(more[i] != NULL);
        }
        for (size_t i = 0; i < count; i++) {
            if (i != count - 1) {
                ps_pool_free(&pool, more[i]);
            }
        }
        CHECK_CMP(ps_pool_trim_to(&pool, 0), >, 0);
        for (size_t i = 0; i < count; i++) {
            void *object = ps_pool_alloc(&pool);
            REQUIRE(object != NULL);
            CHECK(ps_pool_owns(&pool, object));
            memset(object, 1, sizes[kind_ / 2]);
        }
        CHECK_EQ(stats_of(&pool).used_count, count + 1);
    }
}

TEST(reset_keeps_the_largest_chunk_only) {
    NEEDS_CHUNKS();
    EACH_POOL(pool, {0}) {
        fill_all(&pool);
        size_t full_bytes = stats_of(&pool).total_bytes;
        ps_pool_reset(&pool);
        struct ps_pool_stats stats = stats_of(&pool);
        CHECK_EQ(stats.used_count, 0);
        CHECK_EQ(stats.chunk_count, 1);
        CHECK_CMP(stats.total_bytes, >=, full_bytes / 4);
        CHECK_CMP(stats.free_count, >, 0);
        fill_all(&pool);
        CHECK_EQ(stats_of(&pool).used_count, COUNT);
    }
}

TEST(owns_tells_any_address_apart) {
    struct ps_pool other;
    REQUIRE(ps_pool_init(&other, 24, 0, NULL));
    void *foreign = ps_pool_alloc(&other);
    EACH_POOL(pool, {.max_bytes = 4096}) {
        CHECK(!ps_pool_owns(&pool, foreign));
        fill_all(&pool);
        for (size_t i = 0; i < COUNT; i++) {
            CHECK(ps_pool_owns(&pool, objects[i]));
            CHECK(ps_pool_owns(&pool, (char *)objects[i] + sizes[kind_ / 2] - 1));
        }
        CHECK(!ps_pool_owns(&pool, NULL));
        CHECK(!ps_pool_owns(&pool, (void *)(uintptr_t)1));
        CHECK(!ps_pool_owns(&pool, (void *)UINTPTR_MAX));
        CHECK(!ps_pool_owns(&pool, foreign));
        CHECK(!ps_pool_owns(&pool, &pool));
        CHECK(!ps_pool_owns(&pool, objects));
    }
    ps_pool_destroy(&other);
}

TEST(a_moved_pool_keeps_its_objects) {
    EACH_POOL(pool, {.name = "moved"}) {
        fill_all(&pool);
        struct ps_pool to;
        ps_pool_move(&to, &pool);
        CHECK_EQ(stats_of(&to).used_count, COUNT);
        CHECK_EQ(stats_of(&pool).used_count, 0);
        CHECK_EQ(stats_of(&pool).total_bytes, 0);
        CHECK(ps_pool_owns(&to, objects[5]));
        CHECK(!ps_pool_owns(&pool, objects[5]));
        ps_pool_free(&to, objects[5]);
        void *fresh = ps_pool_alloc(&pool);
        CHECK(fresh != NULL && ps_pool_owns(&pool, fresh));
        CHECK_STR_EQ(stats_of(&pool).name, "moved");
        ps_pool_destroy(&to);
    }
}

TEST(a_pool_that_was_moved_from_begins_with_short_chunks) {
    NEEDS_CHUNKS();
    struct ps_pool from;
    struct ps_pool to;
    REQUIRE(ps_pool_init(&from, 64, 0, NULL));
    for (size_t i = 0; i < 1000; i++) {
        CHECK(ps_pool_alloc(&from) != NULL);
    }
    ps_pool_move(&to, &from);
    CHECK(ps_pool_alloc(&from) != NULL);
    struct ps_pool_stats stats;
    ps_pool_stats(&from, &stats);
    CHECK_EQ(stats.total_bytes, 4096);
    ps_pool_destroy(&from);
    ps_pool_destroy(&to);
}

TEST(batches_and_lists_are_as_many_single_calls) {
    EACH_POOL(pool, {0}) {
        CHECK_EQ(ps_pool_alloc_batch(&pool, objects, COUNT), COUNT);
        CHECK_EQ(stats_of(&pool).used_count, COUNT);
        objects[3] = (ps_pool_free(&pool, objects[3]), NULL);
        ps_pool_free_batch(&pool, objects, COUNT);
        CHECK_EQ(stats_of(&pool).used_count, 0);
    }
    struct ps_pool pool;
    struct ps_pool_options options = {.max_items = 10};
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    CHECK_EQ(ps_pool_alloc_batch(&pool, objects, 20), 10);
    CHECK_EQ(errno, ENOMEM);
    char *first = NULL;
    for (size_t i = 0; i < 10; i++) {
        memcpy((char *)objects[i] + 16, &first, sizeof first);
        first = objects[i];
    }
    ps_pool_free_list(&pool, first, 16);
    CHECK_EQ(stats_of(&pool).used_count, 0);
    CHECK_EQ(ps_pool_alloc_batch(&pool, objects, 10), 10);
    ps_pool_destroy(&pool);
}

static void note(void *object, void *context) { ((size_t *)context)[*(uint32_t *)object]++; }

TEST(each_visits_the_live_objects_once) {
    static size_t visits[COUNT];
    struct ps_pool_options options = {.is_ordered = true};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 12, 0, &options));
    fill_all(&pool);
    for (size_t i = 0; i < COUNT; i++) {
        *(uint32_t *)objects[i] = (uint32_t)i;
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 3 != 0) {
            ps_pool_free(&pool, objects[i]);
        }
    }
    CHECK(ps_pool_each(&pool, note, visits));
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQ(visits[i], i % 3 == 0);
    }
    ps_pool_destroy(&pool);
    REQUIRE(ps_pool_init(&pool, 12, 0, NULL));
    errno = 0;
    CHECK(!ps_pool_each(&pool, note, visits));
    CHECK_EQ(errno, EINVAL);
    ps_pool_destroy(&pool);
}

TEST(memory_may_be_out_at_every_chunk) {
    size_t rounds = is_malloc_mode() ? 1 : 40; /* there no chunk is requested, nor refused */
    for (size_t refused = 0; refused < rounds; refused++) {
        struct counting_source source = new_source(refused);
        EACH_POOL(pool, ((struct ps_chunk_options){.source = &source.source, .max_bytes = 4096})) {
            source.calls = 0;
            size_t count = 0;
            errno = 0;
            while (count < COUNT && (objects[count] = ps_pool_alloc(&pool)) != NULL) {
                *(char *)objects[count] = (char)count;
                count++;
            }
            CHECK(count == COUNT || errno == ENOMEM);
            CHECK_EQ(stats_of(&pool).used_count, count);
            size_t chunks = stats_of(&pool).chunk_count;
            if (sizes[kind_ / 2] >= 8) {
                errno = 0;
                CHECK(count == COUNT || ps_pool_alloc_n(&pool, 500) == NULL);
                CHECK(count == COUNT || errno == ENOMEM);
                CHECK_EQ(stats_of(&pool).chunk_count, chunks);
            }
            for (size_t i = 0; i < count; i++) {
                CHECK_EQ(*(char *)objects[i], (char)i);
                CHECK(ps_pool_owns(&pool, objects[i]));
                ps_pool_free(&pool, objects[i]);
            }
            CHECK_CMP(ps_pool_alloc_batch(&pool, objects, count), ==, count);
        }
        CHECK_EQ(source.live_bytes, 0);
    }
}

static int refuse_twice(void *context, size_t bytes) {
    (void)bytes;
    ++*(int *)context;
    return *(int *)context < 3;
}

TEST(the_oom_handler_is_asked) {
    NEEDS_CHUNKS();
    int asked = 0;
    struct counting_source source = new_source(0);
    struct ps_pool_options options = {
        .chunks = {.source = &source.source, .oom = refuse_twice, .oom_context = &asked}};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    CHECK(ps_pool_alloc(&pool) == NULL);
    CHECK_EQ(asked, 3);
    CHECK_EQ(errno, ENOMEM);
    ps_pool_destroy(&pool);
}

TEST(the_account_is_within_a_hundredth_of_the_objects) {
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 8, 0, NULL));
    for (size_t i = 0; i < 4000000; i++) {
        REQUIRE(ps_pool_alloc(&pool) != NULL);
    }
    struct ps_pool_stats stats = stats_of(&pool);
    CHECK_EQ(stats.used_count, 4000000);
    size_t used_bytes = stats.total_bytes - stats.free_count * stats.stride_bytes;
    if (!ps_debug_is_check()) {
        CHECK_CMP(used_bytes, <=, 8 * 4000000 / 100 * 101);
    }
    ps_pool_destroy(&pool);
}

UNIT_MAIN
