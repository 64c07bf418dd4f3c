/* SPDX-License-Identifier: MIT */
/*
 * Stack: when chunks are taken, retained and returned. The length follows the mean size of blocks
 * within the cap, pop retains chunks, small ones make way for large blocks but never more than the
 * block's size, and an empty stack returns chunks that were unused for a while.
 */
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/small_stack.h"

#include <errno.h>
#include <time.h>

static size_t held_bytes(struct ps_stack *stack) {
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    return stats.held_bytes;
}

TEST(chunks_double_up_to_the_cap_of_the_options) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 1024, 16384);
    for (int i = 0; i < 10000; i++) {
        REQUIRE(ps_stack_alloc(stack, 16) != NULL);
    }
    CHECK_EQ(source.longest_bytes, 16384);
    size_t taken = 10000 * (16 + canary_bytes());
    CHECK_CMP(source.calls, <=, 4 + taken / 16384 * 65 / 64 + 1);
    CHECK_CMP(source.live_bytes, <=, taken + taken / 64 + (size_t)2 * 16384);
    ps_stack_destroy(stack);
}

TEST(chunks_hold_many_blocks_of_the_mean_size) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 4096, 32 << 20);
    for (int i = 0; i < 640; i++) {
        REQUIRE(ps_stack_alloc(stack, 10000) != NULL);
    }
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    CHECK_CMP(stats.mean_bytes, >, 5000);
    CHECK_CMP(stats.mean_bytes, <, 20000);
    CHECK_CMP(source.calls, <, 12);
    ps_stack_destroy(stack);
}

TEST(the_mean_is_estimated_from_samples_and_forgets) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 4096, 65536);
    struct ps_stack_stats stats;
    for (int i = 0; i < 200000; i++) {
        REQUIRE(ps_stack_alloc(stack, unit_random() % 10 == 0 ? 1600 : 16) != NULL);
    }
    ps_stack_stats(stack, &stats);
    CHECK_CMP(stats.mean_bytes, >, 174 / 3);
    CHECK_CMP(stats.mean_bytes, <, 174 * 3);
    for (int i = 0; i < 2000000; i++) {
        REQUIRE(ps_stack_alloc(stack, 16) != NULL);
        if (i % 10000 == 0) {
            ps_stack_reset(stack);
        }
    }
    ps_stack_stats(stack, &stats);
    CHECK_CMP(stats.mean_bytes, <, 40 + canary_bytes());
    ps_stack_destroy(stack);
}

/* The trap: two blocks of 50 MiB made the mean, and 64 times the mean was asked for next. */
TEST(two_huge_blocks_do_not_blow_up_the_next_chunk) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack_options options = {.chunks = {.source = &source.source}};
    struct ps_stack *stack = ps_stack_create(&options);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    for (int i = 0; i < 2; i++) {
        REQUIRE(ps_stack_alloc(stack, 50 << 20) != NULL);
    }
    CHECK_CMP(source.longest_bytes, <, 51 << 20);
    REQUIRE(ps_stack_alloc(stack, 100) != NULL);
    CHECK_CMP(source.live_bytes, <, 2 * (51 << 20) + (33 << 20));
    ps_stack_pop(stack, frame);
    frame = ps_stack_push(stack);
    for (int i = 0; i < 100; i++) {
        REQUIRE(ps_stack_alloc(stack, 100) != NULL);
    }
    CHECK_CMP(source.longest_bytes, <, 51 << 20);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(flapping_at_the_edge_of_a_chunk_costs_no_chunks) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 4096, 4096);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    size_t warm_count = 0;
    for (int round = 0; round < 1000; round++) {
        struct ps_stack_frame *frame = ps_stack_push(stack);
        memset(ps_stack_alloc(stack, 2000), 1, 2000);
        memset(ps_stack_alloc(stack, 2000), 1, 2000);
        memset(ps_stack_alloc(stack, 3000), 1, 3000);
        ps_stack_pop(stack, frame);
        warm_count = round == 0 ? source.calls : warm_count;
    }
    CHECK_EQ(source.calls, warm_count);
    CHECK_EQ(source.free_count, 0);
    ps_stack_pop(stack, outer);
    ps_stack_destroy(stack);
}

TEST(too_small_spare_chunks_go_but_never_more_than_the_request) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 4096, 4096);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    for (int i = 0; i < 20; i++) {
        REQUIRE(ps_stack_alloc(stack, 4000) != NULL);
    }
    ps_stack_pop(stack, frame);
    size_t held = source.live_bytes;
    frame = ps_stack_push(stack);
    WHEN("a block is larger than some of the spare chunks");
    REQUIRE(ps_stack_alloc(stack, 10000) != NULL);
    CHECK_CMP(source.free_count, >, 0);
    CHECK_CMP(source.free_count * 4096, <=, 10000);
    CHECK_CMP(source.live_bytes, >=, held);
    THEN("the others serve the next blocks");
    size_t allocs = source.calls;
    for (int i = 0; i < 10; i++) {
        REQUIRE(ps_stack_alloc(stack, 4000) != NULL);
    }
    CHECK_EQ(source.calls, allocs);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(trim_gives_back_all_that_is_spare) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 4096, 65536);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *kept = ps_stack_strdup(stack, "kept");
    CHECK_EQ(ps_stack_trim_to(stack, 0), 0);
    struct ps_stack_mark mark = ps_stack_mark(stack);
    for (int i = 0; i < 1000; i++) {
        memset(ps_stack_alloc(stack, 1000), 1, 1000);
    }
    ps_stack_rewind(stack, mark);
    size_t held = held_bytes(stack);
    size_t freed = ps_stack_trim_to(stack, 300000);
    CHECK_CMP(freed, >, 0);
    CHECK_EQ(held_bytes(stack), held - freed);
    CHECK_CMP(held_bytes(stack), <=, 300000);
    CHECK_CMP(held_bytes(stack), >, 300000 - 65536 - 1);
    ps_stack_trim_to(stack, 0);
    CHECK_EQ(source.live_bytes, 4096);
    CHECK_STR_EQ(kept, "kept");
    memset(ps_stack_alloc(stack, 100000), 1, 100000);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

static void wait_ms(long ms) {
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

static void burst(struct ps_stack *stack, size_t bytes) {
    struct ps_stack_frame *outer = ps_stack_push(stack);
    struct ps_stack_frame *inner = ps_stack_push(stack);
    for (size_t i = 0; i < bytes / 1000; i++) {
        memset(ps_stack_alloc(stack, 1000), 1, 1000);
    }
    ps_stack_pop(stack, inner);
    ps_stack_pop(stack, outer);
}

/* The clock of the library is 4 ms coarse; a period here is 1 ms. */
TEST(an_empty_stack_gives_back_what_was_not_needed_for_a_while) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack_options options = {
        .chunks = {.source = &source.source, .first_bytes = 4096, .max_bytes = 65536},
        .retain_bytes = 100000,
        .trim_ms = 1,
    };
    struct ps_stack *stack = ps_stack_create(&options);
    burst(stack, 1000000);
    CHECK_CMP(source.live_bytes, >=, 1000000);
    WHEN("it needs as much again and again");
    size_t allocs = source.calls;
    for (int i = 0; i < 4; i++) {
        wait_ms(9);
        burst(stack, 1000000);
    }
    CHECK_EQ(source.calls, allocs);
    CHECK_EQ(source.free_count, 0);
    WHEN("it needs little for some time");
    for (int i = 0; i < 3; i++) {
        wait_ms(9);
        burst(stack, 1000);
    }
    CHECK_CMP(source.live_bytes, <=, 100000);
    WHEN("it needs much again");
    burst(stack, 1000000);
    CHECK_CMP(source.live_bytes, >=, 1000000);
    char *text = ps_stack_strdup(stack, "base");
    struct ps_stack_mark mark = ps_stack_mark(stack);
    burst(stack, 1000000);
    ps_stack_rewind(stack, mark);
    CHECK_STR_EQ(text, "base");
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

enum { CALL_COUNT = 12 };

/* One call of each kind; what it allocates is reset later. */
static void one_call(struct ps_stack *stack, int call) {
    struct ps_stack_stats stats = {0};
    switch (call) {
    case 0:
        CHECK(ps_stack_alloc(stack, 10) != NULL);
        break;
    case 1:
        CHECK(ps_stack_zalloc(stack, 10) != NULL);
        break;
    case 2:
        CHECK(ps_stack_realloc(stack, NULL, 0, 10) != NULL);
        break;
    case 3:
        CHECK(!ps_stack_free_last(stack, &stats, 4));
        break;
    case 4:
        CHECK_STR_EQ(ps_stack_printf(stack, "%d", 1), "1");
        break;
    case 5:
        ps_stack_reset(stack);
        break;
    case 6:
        CHECK(!ps_stack_owns(stack, &stats));
        break;
    case 7:
        ps_stack_seal(stack), ps_stack_unseal(stack);
        break;
    case 8:
        CHECK(!ps_stack_is_innermost(stack, NULL));
        break;
    case 9:
        CHECK_CMP(ps_stack_trim_to(stack, 0), >, 0);
        break;
    case 10:
        ps_stack_unwind(stack, ps_stack_push(stack));
        break;
    default:
        ps_stack_stats(stack, &stats);
        break;
    }
}

/* A stack that is closed because it is empty and has many chunks: every call opens it. */
TEST(every_call_works_on_an_empty_stack_that_holds_much) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack_options options = {
        .chunks = {.source = &source.source, .first_bytes = 4096, .max_bytes = 65536},
        .retain_bytes = 1,
        .trim_ms = 1000000,
    };
    struct ps_stack *stack = ps_stack_create(&options);
    for (int call = 0; call < CALL_COUNT; call++) {
        burst(stack, 300000);
        one_call(stack, call);
        struct ps_stack_mark mark = ps_stack_mark(stack);
        memset(ps_stack_alloc(stack, 100), 1, 100);
        ps_stack_rewind(stack, mark);
        burst(stack, 300000);
        ps_stack_rewind(stack, mark);
        char *block = ps_stack_alloc(stack, 8);
        burst(stack, 300000);
        ps_stack_rewind(stack, mark);
        CHECK_PTR_EQ(ps_stack_alloc(stack, 8), block);
        ps_stack_reset(stack);
        struct ps_stack_stats stats;
        ps_stack_stats(stack, &stats);
        CHECK_EQ(stats.used_bytes, 0);
    }
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(a_failed_realloc_leaves_the_block) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(1);
    struct ps_stack *stack = small_stack(&source, 1024, 1024);
    char *block = ps_stack_alloc(stack, 4);
    memcpy(block, "abc", 4);
    errno = 0;
    CHECK(ps_stack_realloc(stack, block, 4, 5000) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_STR_EQ(block, "abc");
    CHECK_PTR_EQ(ps_stack_realloc(stack, block, 4, 8), block);
    ps_stack_destroy(stack);
}

UNIT_MAIN
