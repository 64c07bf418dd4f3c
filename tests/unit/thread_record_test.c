// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Records of threads: ends with and without destructors, joins, and memory that is used again. */
#include "tests/unit/announced.h"
#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

ENGINE_HEAPS

#define STACK_BYTES ((size_t)256 << 10)
#define BLOCK_BYTES 100

static void *block;          /* that the last thread allocated */
static struct ps_heap *heap; /* of that thread */
static struct ps_thread_record *record;

static void *allocate(void *unused) {
    block = ps_heap_alloc(BLOCK_BYTES);
    heap = ps_thread_own();
    record = ps_thread.record;
    return unused;
}

static void *do_nothing(void *unused) {
    record = ps_thread.record;
    heap = ps_thread_own();
    return unused;
}

/* Frees as libc does after the destructors. */
static void *free_only(void *unused) {
    ps_heap_free(block);
    heap = ps_thread_own();
    return unused;
}

/* Joins as the shim's pthread_join does. */
static void join(pthread_t thread) {
    struct ps_thread_record *joined = ps_thread_record_join(thread);
    REQUIRE(pthread_join(thread, NULL) == 0);
    if (joined != NULL) {
        ps_thread_joined(joined, true);
    }
}

FRESH_TEST(a_thread_that_ends_by_its_destructors_leaves_its_record) {
    ps_engine_start();
    join(announced_create(allocate, NULL));
    struct ps_thread_record *first = record;
    CHECK(first != NULL && first->has_ended && !first->is_listed);
    CHECK_EQ(first->references, 0);
    CHECK_EQ(heap->x_state, PS_HEAP_PARKED);
    CHECK_EQ(ps_background_threads(), 1);
    join(announced_create(do_nothing, NULL));
    CHECK(record == first); /* used again */
    CHECK(heap == NULL);
    CHECK_EQ(ps_background_threads(), 1);
    ps_heap_free(block);
}

/* Sanitizers need more of a stack, and to be notified when a thread ends. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

static char *own_stack(pthread_attr_t *attributes) {
    char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    REQUIRE(pthread_attr_init(attributes) == 0);
    REQUIRE(pthread_attr_setstack(attributes, stack, STACK_BYTES) == 0);
    return stack;
}

static void *allocate_and_vanish(void *unused) {
    allocate(unused);
    syscall(SYS_exit, 0);
    return unused;
}

FRESH_TEST(a_thread_that_ends_without_them_is_cleared_by_the_join) {
    ps_engine_start();
    join(announced_create(allocate_and_vanish, NULL));
    struct ps_heap *first = heap;
    CHECK_EQ(first->x_state, PS_HEAP_PARKED);
    CHECK(first->x_thread == NULL && first->record == NULL);
    CHECK_EQ(record->references, 0);
    CHECK_EQ(ps_background_threads(), 1);
    ps_heap_free(block);
    WHEN("its last block is free, its heap serves the next thread");
    ps_thread_enter();
    ps_heap_tick_now(ps_thread_own());
    ps_thread_leave();
    join(announced_create(allocate, NULL));
    CHECK(heap == first);
    ps_heap_free(block);
}

FRESH_TEST(or_by_the_next_thread_on_its_stack) {
    pthread_attr_t attributes;
    (void)own_stack(&attributes);
    ps_engine_start();
    pthread_t thread = announced_create_on(&attributes, ps_thread_record_make(true, false),
                                           allocate_and_vanish, NULL);
    REQUIRE(pthread_join(thread, NULL) == 0); /* not by the shim's */
    struct ps_heap *first = heap;
    CHECK_EQ(first->x_state, PS_HEAP_LIVE);
    CHECK_EQ(ps_background_threads(), 2);
    join(announced_create_on(&attributes, ps_thread_record_make(true, false), do_nothing, NULL));
    CHECK_EQ(first->x_state, PS_HEAP_PARKED);
    CHECK_EQ(ps_background_threads(), 1);
    ps_heap_free(block);
}

static pthread_barrier_t step;

static void *allocate_and_wait(void *unused) {
    allocate(unused);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    return unused;
}

FRESH_TEST(words_on_the_program_s_stack_are_not_written_once_detached) {
    pthread_attr_t attributes;
    char *stack = own_stack(&attributes);
    ps_engine_start();
    REQUIRE(pthread_barrier_init(&step, NULL, 2) == 0);
    pthread_t thread = announced_create_on(&attributes, ps_thread_record_make(true, false),
                                           allocate_and_wait, NULL);
    pthread_barrier_wait(&step);
    CHECK((char *)heap->x_thread > stack && (char *)heap->x_thread < stack + STACK_BYTES);
    ps_thread_record_detach(thread);
    CHECK(heap->x_thread == NULL && heap->record == record);
    pthread_barrier_wait(&step);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(heap->x_state, PS_HEAP_PARKED);
    ps_heap_free(block);
}

#endif

FRESH_TEST(a_thread_that_was_not_announced_gets_no_heap_by_a_free) {
    pthread_t thread;
    ps_engine_start();
    block = ps_heap_alloc(BLOCK_BYTES);
    REQUIRE(pthread_create(&thread, NULL, free_only, NULL) == 0);
    join(thread);
    CHECK(heap == NULL);
    CHECK_EQ(ps_background_threads(), 1);
    WHEN("it allocates, it gets one that is not taken");
    REQUIRE(pthread_create(&thread, NULL, allocate, NULL) == 0);
    join(thread);
    CHECK(heap != NULL && record == NULL);
    CHECK_EQ(heap->x_state, PS_HEAP_PARKED); /* its end was noticed */
    CHECK_EQ(ps_background_threads(), 1);
    ps_heap_free(block);
}

/* The thread may have freed the memory of its handle by then. */
FRESH_TEST(a_handle_is_not_read_once_the_thread_has_begun) {
    pthread_t thread;
    ps_engine_start();
    struct ps_thread_record *made = ps_thread_record_make(false, false);
    made->routine = (void (*)(void))do_nothing;
    ps_background_thread_created();
    REQUIRE(pthread_create(&thread, NULL, announced_run, made) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(made->references, 1);
    ps_thread_record_created(made, NULL);
    CHECK_EQ(made->references, 0);
}

FRESH_TEST(a_thread_that_was_not_created_needs_no_record) {
    ps_engine_start();
    struct ps_thread_record *first = ps_thread_record_make(false, false);
    ps_thread_record_dropped(first);
    CHECK(ps_thread_record_make(false, false) == first);
}

/* ---- forks ---- */

static void *end_early(void *unused) { return unused; }

static void create_and_join(void) {
    struct ps_thread_record *joined = NULL;
    pthread_t self = pthread_self();
    for (int i = 0; i < 2; i++) {
        struct ps_thread_record *made = ps_thread_record_make(false, false);
        REQUIRE(made != NULL);
        ps_thread_record_dropped(made);
    }
    joined = ps_thread_record_join(self); /* as another thread would */
    CHECK(joined == ps_thread.record);
    ps_thread_joined(joined, false);
    ps_thread_record_detach(self);
}

static void use_threads(void) {
    join(announced_create(allocate, NULL));
    ps_heap_free(block);
    join(announced_create(end_early, NULL));
}

FRESH_TEST(a_child_may_use_records_wherever_its_parent_was) {
    ps_engine_start();
    fork_at_each_step(NULL, create_and_join, use_threads, 3);
}

UNIT_MAIN
