/* SPDX-License-Identifier: MIT */
/*
 * Stack: misuse is found and named, always or where checks are on; PS_DEBUG=malloc behaves as the
 * stack of chunks does. Each test is a process of its own, since PS_DEBUG is read once.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"
#include "tests/pools/small_stack.h"

#include <pthread.h>
#include <setjmp.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

/* For a result that only matters by not coming back. */
static void *volatile unused_block;

FRESH_TEST(an_unbalanced_pop_aborts_always) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    struct ps_stack_frame *inner = ps_stack_push(stack);
    CHECK_ABORTS(ps_stack_pop(stack, outer), "poolshim: unbalanced pop of frame");
    ps_stack_pop(stack, inner);
    CHECK_ABORTS(ps_stack_pop(stack, inner), "poolshim: unbalanced pop of frame");
    ps_stack_pop(stack, outer);
    CHECK_ABORTS(ps_stack_pop(stack, outer), "in stack");
    CHECK_ABORTS(ps_t_pop(outer), "poolshim: unbalanced pop of frame");
    ps_stack_destroy(stack);
}

FRESH_TEST(a_mark_of_another_frame_aborts_always) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_mark mark = ps_stack_mark(stack);
    ps_stack_push(stack);
    CHECK_ABORTS(ps_stack_rewind(stack, mark), "poolshim: rewind to a mark of another frame");
    ps_stack_destroy(stack);
}

FRESH_TEST(unwinding_of_a_frame_that_is_not_open_aborts_always) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    struct ps_stack_frame *inner = ps_stack_push(stack);
    ps_stack_pop(stack, inner);
    CHECK_ABORTS(ps_stack_unwind(stack, inner), "poolshim: unwinding of frame");
    ps_stack_unwind(stack, outer);
    CHECK_ABORTS(ps_stack_unwind(stack, outer), "poolshim: unwinding of frame");
    CHECK_ABORTS(ps_t_unwind(outer), "poolshim: unwinding of frame");
    ps_stack_destroy(stack);
}

static void *use_elsewhere(void *stack) { return ps_stack_alloc(stack, 8); }

static void use_in_another_thread(struct ps_stack *stack) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, use_elsewhere, stack) == 0);
    pthread_join(thread, NULL);
}

static void adopt_and_use(struct ps_stack *stack) {
    ps_stack_adopt(stack);
    CHECK(ps_stack_alloc(stack, 8) != NULL);
}

static void *adopt_elsewhere(void *stack) {
    adopt_and_use(stack);
    return NULL;
}

static void check_owner(void) {
    struct ps_stack *stack = ps_stack_create(NULL);
    CHECK_ABORTS(use_in_another_thread(stack), "poolshim: use by another thread of stack");
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, adopt_elsewhere, stack) == 0);
    pthread_join(thread, NULL);
    adopt_and_use(stack);
    ps_stack_destroy(stack);
}

static void check_realloc(void) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 1024, 1024);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    char *block = ps_stack_alloc(stack, 100);
    char *far = ps_stack_alloc(stack, 900);
    memset(far, 1, 900);
    CHECK(ps_stack_realloc(stack, block, 100, 200) != NULL);
    block = ps_stack_alloc(stack, 100);
    struct ps_stack_frame *inner = ps_stack_push(stack);
    CHECK_ABORTS(unused_block = ps_stack_realloc(stack, block, 100, 200),
                 "poolshim: realloc of a block of another frame");
    CHECK_ABORTS(unused_block = ps_stack_realloc(stack, block, 100, 10),
                 "poolshim: realloc of a block of another frame");
    CHECK_ABORTS(unused_block = ps_stack_realloc(stack, far, 900, 1000),
                 "poolshim: realloc of a block of another frame");
    ps_stack_pop(stack, inner);
    CHECK(ps_stack_realloc(stack, block, 100, 200) != NULL);
    ps_stack_pop(stack, outer);
    ps_stack_destroy(stack);
}

static void check_seal(void) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    ps_stack_seal(stack);
    CHECK_ABORTS(unused_block = ps_stack_alloc(stack, 8),
                 "poolshim: allocation in a sealed frame of stack");
    CHECK_ABORTS(unused_block = ps_stack_strdup(stack, "a"),
                 "poolshim: allocation in a sealed frame");
    struct ps_stack_frame *inner = ps_stack_push(stack);
    CHECK(ps_stack_alloc(stack, 8) != NULL);
    ps_stack_pop(stack, inner);
    CHECK_ABORTS(unused_block = ps_stack_alloc(stack, 8),
                 "poolshim: allocation in a sealed frame of stack");
    ps_stack_unseal(stack);
    CHECK(ps_stack_alloc(stack, 8) != NULL);
    ps_stack_pop(stack, outer);
    ps_stack_destroy(stack);
}

static void check_base_of_thread(void) {
    CHECK_ABORTS(unused_block = ps_t_alloc(8),
                 "poolshim: allocation outside of all frames of stack");
    PS_SCOPE;
    CHECK(ps_t_alloc(8) != NULL);
    ps_stack_seal(ps_t());
    CHECK_ABORTS(unused_block = ps_t_alloc(8), "poolshim: allocation in a sealed frame");
}

static void check_marks(void) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack *stack = small_stack(&source, 1024, 1024);
    struct ps_stack_mark before = ps_stack_mark(stack);
    memset(ps_stack_alloc(stack, 8), 1, 8);
    struct ps_stack_mark near = ps_stack_mark(stack);
    memset(ps_stack_alloc(stack, 2000), 1, 2000);
    struct ps_stack_mark far = ps_stack_mark(stack);
    ps_stack_rewind(stack, near);
    CHECK_ABORTS(ps_stack_rewind(stack, far), "poolshim: rewind to an expired mark");
    ps_stack_rewind(stack, before);
    CHECK_ABORTS(ps_stack_rewind(stack, near), "poolshim: rewind to an expired mark");
    ps_stack_destroy(stack);
}

DEBUG_TEST(another_thread_is_found, "check") { check_owner(); }
DEBUG_TEST(realloc_across_frames_is_found, "check") { check_realloc(); }
DEBUG_TEST(allocation_in_a_sealed_frame_is_found, "check") { check_seal(); }
DEBUG_TEST(allocation_outside_of_all_frames_is_found, "check") { check_base_of_thread(); }
DEBUG_TEST(marks_that_are_gone_are_found, "check") { check_marks(); }

DEBUG_TEST(another_thread_is_found_in_mode_malloc, "malloc") { check_owner(); }
DEBUG_TEST(realloc_across_frames_is_found_in_mode_malloc, "malloc") { check_realloc(); }
DEBUG_TEST(allocation_in_a_sealed_frame_is_found_in_mode_malloc, "malloc") { check_seal(); }
DEBUG_TEST(allocation_outside_of_all_frames_is_found_in_mode_malloc, "malloc") {
    check_base_of_thread();
}
DEBUG_TEST(marks_that_are_gone_are_found_in_mode_malloc, "malloc") { check_marks(); }

FRESH_TEST(seals_are_nothing_without_checks) {
    struct ps_stack *stack = ps_stack_create(NULL);
    ps_stack_seal(ps_t());
    ps_stack_unseal(ps_t());
    ps_stack_seal(stack);
    ps_stack_unseal(stack);
    CHECK(ps_stack_alloc(stack, 8) != NULL);
    ps_stack_destroy(stack);
}

DEBUG_TEST(mode_malloc_wants_the_old_size, "malloc") {
    struct ps_stack *stack = ps_stack_create(NULL);
    char *block = ps_stack_alloc(stack, 100);
    CHECK_ABORTS(unused_block = ps_stack_realloc(stack, block, 99, 200),
                 "poolshim: realloc with a wrong old size");
    ps_stack_destroy(stack);
}

DEBUG_TEST(freed_blocks_are_filled, "check") {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    unsigned char *block = ps_stack_alloc(stack, 64);
    memset(block, 1, 64);
    ps_stack_pop(stack, frame);
    frame = ps_stack_push(stack);
    CHECK_PTR_EQ(ps_stack_alloc(stack, 64), block);
    ps_unpoison_defined(block, 64); /* a fresh block: memcheck knows no contents of it */
    CHECK_EQ(block[0], 0xdd);
    CHECK_EQ(block[63], 0xdd);
    ps_stack_destroy(stack);
}

/* What AddressSanitizer would report as a use of poisoned memory. */
FRESH_TEST(memory_that_is_no_block_is_marked_for_the_sanitizer) {
#if defined(__SANITIZE_ADDRESS__)
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *block = ps_stack_alloc(stack, 20);
    CHECK(!__asan_address_is_poisoned(block) && !__asan_address_is_poisoned(block + 19));
    CHECK(__asan_address_is_poisoned(block + 20) && __asan_address_is_poisoned(block + 5000));
    CHECK_PTR_EQ(ps_stack_realloc(stack, block, 20, 10), block);
    CHECK(__asan_address_is_poisoned(block + 10));
    ps_stack_pop(stack, frame);
    CHECK(__asan_address_is_poisoned(block));
    ps_stack_destroy(stack);
#endif
}

static void *exercise(void *unused) {
    PS_SCOPE;
    for (int round = 0; round < 10; round++) {
        PS_SCOPE;
        char *text = ps_t_printf("%d", round);
        CHECK_EQ(atoi(text), round);
        memset(ps_t_alloc(100000), 1, 100000);
    }
    return unused;
}

static void exercise_all(void) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    char *aligned = ps_stack_alloc_aligned(stack, 10, 4096);
    CHECK_EQ((uintptr_t)aligned % 4096, 0);
    char *text = ps_stack_printf(stack, "%s %d", "text", 1);
    CHECK_STR_EQ(text, "text 1");
    struct ps_stack_mark mark = ps_stack_mark(stack);
    char *grown = NULL;
    for (size_t bytes = 0; bytes < 2000; bytes += 50) {
        grown = ps_stack_realloc(stack, grown, bytes, bytes + 50);
        memset(grown + bytes, 1, 50);
    }
    CHECK(ps_stack_owns(stack, grown) && ps_stack_owns(stack, text));
    CHECK(!ps_stack_owns(stack, &mark));
    ps_stack_rewind(stack, mark);
    CHECK_STR_EQ(text, "text 1");
    char *last = ps_stack_alloc(stack, 0);
    CHECK(!ps_stack_free_last(stack, text, 7));
    CHECK(ps_stack_free_last(stack, last, 0));
    struct ps_stack_frame *inner = ps_stack_push(stack);
    CHECK(!ps_stack_free_last(stack, text, 7));
    CHECK(ps_stack_is_innermost(stack, inner) && !ps_stack_is_innermost(stack, outer));
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    CHECK_EQ(stats.frame_count, 2);
    CHECK_CMP(stats.used_bytes, >=, 17);
    ps_stack_push(stack);
    ps_stack_unwind(stack, outer);
    ps_stack_stats(stack, &stats);
    CHECK_EQ(stats.used_bytes, 0);
    ps_stack_push(stack);
    CHECK(ps_stack_alloc(stack, 10) != NULL);
    CHECK(ps_stack_alloc(stack, SIZE_MAX - 60) == NULL);
    ps_stack_trim_to(stack, 0);
    ps_stack_reset(stack);
    CHECK(ps_stack_alloc(stack, 10) != NULL);
    ps_stack_destroy(stack);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, exercise, NULL) == 0);
    pthread_join(thread, NULL);
    exercise(NULL);
}

FRESH_TEST(everything_works_in_the_default_mode) { exercise_all(); }
DEBUG_TEST(everything_works_with_checks, "check") { exercise_all(); }
DEBUG_TEST(everything_works_on_malloc, "malloc") { exercise_all(); }
DEBUG_TEST(everything_works_on_malloc_with_checks, "malloc,check") { exercise_all(); }

static jmp_buf landing;

static int jump_out(void *context, size_t bytes) {
    (void)context;
    CHECK_CMP(bytes, >=, 100000);
    longjmp(landing, 1);
}

/* The handler of a source that is out leaves by longjmp: the stack is as it was. */
static void check_jump_out_of_the_handler(void) {
    struct counting_source source = new_source(1);
    struct ps_stack_options options = {
        .chunks = {.source = &source.source, .first_bytes = 4096, .oom = jump_out}};
    struct ps_stack *volatile stack = ps_stack_create(&options);
    struct ps_stack_frame *volatile frame = ps_stack_push(stack);
    char *volatile kept = ps_stack_strdup(stack, "kept");
    volatile int jumps = 0;
    if (setjmp(landing) == 0) {
        CHECK(ps_stack_alloc(stack, 100000) == NULL);
    } else {
        jumps++;
    }
    CHECK_EQ(jumps, 1);
    CHECK_STR_EQ(kept, "kept");
    CHECK_STR_EQ(ps_stack_strdup(stack, "next"), "next");
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

FRESH_TEST(the_oom_handler_may_jump_out) {
    NEEDS_CHUNKS();
    check_jump_out_of_the_handler();
}

DEBUG_TEST(the_oom_handler_may_jump_out_with_checks, "check") { check_jump_out_of_the_handler(); }

UNIT_MAIN
