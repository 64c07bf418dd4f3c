/* SPDX-License-Identifier: MIT */
/*
 * Pools of objects of one size under PS_DEBUG: each misuse gives its line and aborts; with malloc
 * each object is a malloc block. Each test is a process of its own, since PS_DEBUG is read once.
 */
#include "tests/unit/unit.h"

#include "tests/pools/pool_model.h"
#include "tests/pools/respawn.h"

#include <poolshim/pool.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

static struct ps_pool pool;
static int dummy;

/* Hides from the compiler that a pointer is wrong. */
static void *wrong(void *pointer) {
    __asm__("" : "+r"(pointer));
    return pointer;
}

static void start(bool is_ordered) {
    struct ps_pool_options options = {.is_ordered = is_ordered, .chunks = {.name = "points"}};
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
}

DEBUG_TEST(a_double_free_is_found, "check") {
    start(false);
    void *one = ps_pool_alloc(&pool);
    void *two = ps_pool_alloc(&pool);
    ps_pool_free(&pool, one);
    CHECK_ABORTS(ps_pool_free(&pool, one), "poolshim: double free of 0x");
    ps_pool_free(&pool, two);
    CHECK_ABORTS(ps_pool_free(&pool, one), " in points\n");
}

DEBUG_TEST(a_double_free_in_an_ordered_pool_is_found_without_checks, "") {
    start(true);
    void *one = ps_pool_alloc(&pool);
    void *two = ps_pool_alloc(&pool);
    ps_pool_free(&pool, one);
    ps_pool_free(&pool, two);
    CHECK_ABORTS(ps_pool_free(&pool, two), "poolshim: double free of 0x");
}

DEBUG_TEST(foreign_pointers_are_found, "check") {
    start(false);
    void *object = ps_pool_alloc(&pool);
    CHECK_ABORTS(ps_pool_free(&pool, wrong(&dummy)), "poolshim: free of a foreign pointer 0x");
    CHECK_ABORTS(ps_pool_free(&pool, wrong((void *)8)), "free of a foreign pointer 0x8 in");
    CHECK_ABORTS(ps_pool_free(&pool, wrong((char *)object + 24)), "free of a foreign pointer");
    CHECK_ABORTS(ps_pool_free(&pool, wrong((char *)object - 24)), "free of a foreign pointer");
    CHECK_ABORTS(ps_pool_free(&pool, wrong((char *)object + 8)),
                 "free of a pointer into an object");
}

DEBUG_TEST(arrays_of_another_length_are_found, "check") {
    start(false);
    char *array = ps_pool_alloc_n(&pool, 4);
    void *behind = ps_pool_alloc_n(&pool, 2);
    CHECK_ABORTS(ps_pool_free_n(&pool, array, 3), "free with another length");
    CHECK_ABORTS(ps_pool_free_n(&pool, array, 5), "free with another length");
    CHECK_ABORTS(ps_pool_free(&pool, array), "free with another length");
    CHECK_ABORTS(ps_pool_free_n(&pool, array + 24, 3), "free of a pointer into an array");
    ps_pool_free_n(&pool, array, 4);
    CHECK_ABORTS(ps_pool_free_n(&pool, array, 4), "double free of");
    ps_pool_free_n(&pool, behind, 2);
}

DEBUG_TEST(two_threads_at_once_are_found, "check") {
    start(false);
    void *object = ps_pool_alloc(&pool);
    pool.x_is_busy = 1; /* as another thread in the middle of a call leaves it */
    CHECK_ABORTS(ps_pool_free(&pool, object), "poolshim: two threads at once use 0x");
    CHECK_ABORTS(dummy += ps_pool_alloc(&pool) != NULL, "poolshim: two threads at once use 0x");
}

DEBUG_TEST(freed_objects_are_poisoned, "check") {
#if defined(__SANITIZE_ADDRESS__)
    start(false);
    char *object = ps_pool_alloc(&pool);
    object[23] = 1;
    CHECK_EQ(__asan_address_is_poisoned(object + 23), 0);
    CHECK_NE(__asan_address_is_poisoned(object + 24), 0);
    ps_pool_free(&pool, object);
    CHECK_NE(__asan_address_is_poisoned(object), 0);
#endif
}

DEBUG_TEST(malloc_mode_does_as_the_model, "malloc") {
    static struct model model;
    for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
        for (size_t max_items = 0; max_items <= 500; max_items += 500) {
            struct ps_pool_options options = {.is_ordered = is_ordered != 0,
                                              .max_items = max_items};
            REQUIRE(ps_pool_init(&pool, 20, 32, &options));
            model = (struct model){.pool = &pool,
                                   .size = 20,
                                   .align = 32,
                                   .max_items = max_items,
                                   .array_max = 5,
                                   .may_fail = true};
            model_run(&model, 5000);
            ps_pool_destroy(&pool);
        }
    }
}

DEBUG_TEST(malloc_mode_knows_live_objects, "malloc") {
    start(true);
    void *one = ps_pool_alloc(&pool);
    void *array = ps_pool_alloc_n(&pool, 3);
    size_t count = 0;
    CHECK(ps_pool_each(&pool, model_count, &count));
    CHECK_EQ(count, 4);
    CHECK(ps_pool_owns(&pool, one));
    CHECK(!ps_pool_owns(&pool, &dummy));
    CHECK_ABORTS(ps_pool_free_n(&pool, array, 2), "free with another length");
    ps_pool_free(&pool, one);
    struct ps_pool moved;
    ps_pool_move(&moved, &pool);
    ps_pool_free_n(&moved, array, 3);
    CHECK(ps_pool_alloc(&moved) != NULL);
    ps_pool_reset(&moved);
    struct ps_pool_stats stats;
    ps_pool_stats(&moved, &stats);
    CHECK_EQ(stats.used_count, 0);
    ps_pool_destroy(&moved);
}

static void check_unchecked(size_t size) {
    struct ps_pool_options options = {.is_unchecked = true};
    REQUIRE(ps_pool_init(&pool, size, 0, &options));
    char *one = ps_pool_alloc(&pool);
    char *two = ps_pool_alloc(&pool);
    CHECK_PTR_EQ(two, one + (size < 8 ? 8 : size)); /* cut from a chunk */
    ps_pool_free_unchecked(&pool, one);
    ps_pool_free_unchecked(&pool, two);
    CHECK_PTR_EQ(ps_pool_alloc(&pool), two);
    CHECK_PTR_EQ(ps_pool_alloc(&pool), one);
    ps_pool_free(&pool, two);
    ps_pool_free(&pool, NULL);
    CHECK_PTR_EQ(ps_pool_alloc(&pool), two);
    ps_pool_destroy(&pool);
}

DEBUG_TEST(an_unchecked_pool_is_a_usual_one, "") {
    check_unchecked(1);
    check_unchecked(24);
}

DEBUG_TEST(checks_do_not_concern_an_unchecked_pool, "check") {
    check_unchecked(1);
    check_unchecked(24);
}

DEBUG_TEST(malloc_does_not_concern_an_unchecked_pool, "malloc") {
    check_unchecked(1);
    check_unchecked(24);
}

UNIT_MAIN
