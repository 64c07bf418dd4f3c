/* SPDX-License-Identifier: MIT */
/*
 * The stack of a thread: used before main, in many threads, in destructors of threads, after fork,
 * left by longjmp; freed at thread exit.
 */
#include "tests/unit/unit.h"

#include <poolshim/pages.h>
#include <poolshim/stack.h>
#include <pthread.h>
#include <setjmp.h>

static int length_before_main;

__attribute__((constructor(101))) static void use_before_main(void) {
    PS_SCOPE;
    length_before_main = (int)strlen(ps_t_printf("%s", "early"));
}

TEST(it_works_before_main) { CHECK_EQ(length_before_main, 5); }

/* Returns a text in the caller's frame. */
static char *t_join(const char *left, const char *right) {
    char *text;
    {
        PS_SCOPE; /* for what only this function needs */
        memset(ps_t_zalloc(1000), 1, 1000);
    }
    text = ps_t_printf("%s%s", left, right);
    return text;
}

TEST(scopes_end_on_every_way_out) {
    PS_SCOPE;
    char *first = NULL;
    for (int i = 0; i < 100; i++) {
        PS_SCOPE;
        char *text = t_join("a", "b");
        CHECK_STR_EQ(text, "ab");
        CHECK(first == NULL || text == first || ps_stack_owns(ps_t(), text));
        first = text;
        if (i % 3 == 0) {
            continue;
        }
        if (i == 98) {
            break;
        }
    }
    struct ps_stack_stats stats;
    ps_stack_stats(ps_t(), &stats);
    CHECK_EQ(stats.frame_count, 1);
    CHECK_STR_EQ(ps_t_strdup("x"), "x");
    CHECK_EQ(*(char *)ps_t_memdup("y", 1), 'y');
    double *numbers = ps_t_new(double, 10);
    numbers[9] = 1;
    numbers = ps_t_realloc(numbers, 80, 160);
    CHECK_EQ(numbers[9], 1);
    CHECK_EQ((uintptr_t)ps_t_alloc_aligned(1, 256) % 256, 0);
}

TEST(two_scopes_in_one_block_and_of_two_stacks) {
    struct ps_stack *stack = ps_stack_create(NULL);
    {
        PS_SCOPE;
        PS_STACK_SCOPE(stack);
        PS_STACK_SCOPE(stack);
        PS_SCOPE;
        CHECK(ps_stack_alloc(stack, 10) != NULL && ps_t_alloc(10) != NULL);
    }
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    CHECK_EQ(stats.used_bytes, 0);
    ps_stack_stats(ps_t(), &stats);
    CHECK_EQ(stats.frame_count, 0);
    ps_stack_destroy(stack);
}

static jmp_buf landing;

/* Opens frames within frames, and leaves all of them at once if there are any. */
static void leave_by_longjmp(int depth) {
    PS_SCOPE;
    memset(ps_t_alloc(50000), depth, 50000);
    if (depth > 0) {
        leave_by_longjmp(depth - 1);
        longjmp(landing, 1);
    }
}

TEST(longjmp_leaves_frames_that_unwind_closes) {
    struct ps_stack_frame *volatile frame = ps_t_push();
    char *volatile kept = ps_t_strdup("kept");
    for (volatile int round = 1; round < 20; round++) {
        if (setjmp(landing) == 0) {
            struct ps_stack_frame *inner = ps_t_push();
            memset(ps_t_alloc(1), 1, 1);
            leave_by_longjmp(round);
            ps_t_pop(inner);
        }
        CHECK_STR_EQ(kept, "kept");
    }
    ps_t_unwind(frame);
    struct ps_stack_stats stats;
    ps_stack_stats(ps_t(), &stats);
    CHECK_EQ(stats.frame_count, 0);
    CHECK_EQ(stats.used_bytes, 0);
}

static pthread_key_t late_key;

/* glibc runs destructors in four rounds. ThreadSanitizer ends its own record of the thread in the
 * fourth, and an access after that fails now and then. */
#ifdef __SANITIZE_THREAD__
#define LATE_ROUNDS 2
#else
#define LATE_ROUNDS 3
#endif

/* Runs after the stack's own destructor, or before it: in both cases the stack works. */
static void use_late(void *rounds_left) {
    PS_SCOPE;
    memset(ps_t_alloc(1000), 1, 1000);
    size_t left = (size_t)(uintptr_t)rounds_left;
    if (left > 1) {
        pthread_setspecific(late_key, (void *)(uintptr_t)(left - 1));
    }
}

static void *fill_and_end(void *unused) {
    pthread_setspecific(late_key, (void *)(uintptr_t)LATE_ROUNDS);
    ps_t_push();
    for (int i = 0; i < 10; i++) {
        memset(ps_t_alloc(100000), 1, 100000);
    }
    ps_t_push(); /* open frames at the end do no harm */
    return unused;
}

TEST(the_stack_is_freed_when_its_thread_ends) {
    REQUIRE(pthread_key_create(&late_key, use_late) == 0);
    size_t used_bytes[2];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) {
            pthread_t thread;
            REQUIRE(pthread_create(&thread, NULL, fill_and_end, NULL) == 0);
            pthread_join(thread, NULL);
        }
        struct ps_pages_stats stats;
        ps_pages_stats(&stats);
        used_bytes[round] = stats.used_bytes;
    }
    CHECK_EQ(used_bytes[0], used_bytes[1]);
    pthread_key_delete(late_key);
}

static void *hammer(void *seed) {
    for (unsigned round = 0; round < 200; round++) {
        PS_SCOPE;
        unsigned *numbers = ps_t_new(unsigned, 1000);
        for (unsigned i = 0; i < 1000; i++) {
            numbers[i] = (unsigned)(uintptr_t)seed + i;
        }
        PS_SCOPE;
        memset(ps_t_alloc(round * 100), 1, round * 100);
        CHECK_EQ(numbers[999], (unsigned)(uintptr_t)seed + 999);
    }
    return NULL;
}

TEST(every_thread_has_its_own) {
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, hammer, (void *)i) == 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(a_child_after_fork_goes_on_in_the_frame) {
    PS_SCOPE;
    char *text = ps_t_strdup("parent's");
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        int is_good = strcmp(text, "parent's") == 0;
        hammer(NULL);
        pthread_t thread;
        is_good &= pthread_create(&thread, NULL, hammer, NULL) == 0;
        pthread_join(thread, NULL);
        _exit(is_good && strcmp(text, "parent's") == 0 ? 0 : 1);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

TEST(a_thread_that_never_used_it_has_an_empty_one) {
    struct ps_stack fresh = {NULL, NULL, PS_STACK_CLOSED, NULL};
    struct ps_stack_stats stats;
    ps_stack_stats(&fresh, &stats);
    CHECK_EQ(stats.held_bytes, 0);
    CHECK_STR_EQ(ps_stack_name(&fresh), "stack");
    CHECK(!ps_stack_owns(&fresh, &fresh));
    CHECK_EQ(ps_stack_trim_to(&fresh, 0), 0);
    CHECK(!ps_stack_free_last(&fresh, &fresh, 1));
    ps_stack_reset(&fresh);
    ps_stack_adopt(&fresh);
    ps_stack_unwind(&fresh, NULL);
    ps_stack_pop(&fresh, NULL);
    CHECK(!ps_stack_is_innermost(&fresh, NULL));
}

UNIT_MAIN
