/* SPDX-License-Identifier: MIT */
/*
 * Retired objects under threads that read them: a stack without a lock, on systems with a barrier
 * in all threads and without.
 */
#include "tests/unit/fresh.h"

#include "pools/common/debug.h"
#include "tests/pools/new_domain.h"
#include "tests/pools/refused_call.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <poolshim/bounded.h>

/* ---- a stack without a lock ---- */

struct node {
    struct node *next;
    uint64_t value; /* 0: freed */
};

struct stack {
    struct node *x_head;
    struct ps_retire *domain;
    struct ps_bounded *pool; /* NULL: malloc */
    size_t rounds;
    uint64_t x_sum;
};

static void free_node(void *object, void *context) {
    struct node *node = object;
    node->value = 0;
    node->next = NULL;
    if (context != NULL) {
        ps_bounded_free(context, node);
    } else {
        free(node);
    }
}

static void push(struct stack *stack, struct node *node) {
    struct node *head = __atomic_load_n(&stack->x_head, __ATOMIC_RELAXED);
    do {
        node->next = head;
    } while (!__atomic_compare_exchange_n(&stack->x_head, &head, node, 1, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

/* Without a counter: a node cannot come again, since it is not freed while it is read. */
static struct node *pop(struct stack *stack) {
    CHECK(ps_retire_enter(stack->domain));
    struct node *head = __atomic_load_n(&stack->x_head, __ATOMIC_ACQUIRE);
    while (head != NULL) {
        CHECK_NE(head->value, 0);
        if (__atomic_compare_exchange_n(&stack->x_head, &head, head->next, 1, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            break;
        }
    }
    ps_retire_leave(stack->domain);
    return head;
}

static void *push_and_pop(void *argument) {
    struct stack *stack = argument;
    uint64_t sum = 0;
    for (size_t round = 1; round <= stack->rounds; round++) {
        struct node *node =
            stack->pool != NULL ? ps_bounded_alloc(stack->pool) : malloc(sizeof *node);
        if (node != NULL) {
            node->value = round;
            sum -= round;
            push(stack, node);
        }
        node = round % 3 == 0 ? NULL : pop(stack);
        if (node != NULL) {
            sum += node->value;
            CHECK(ps_retire(stack->domain, node, free_node, stack->pool));
        }
    }
    __atomic_fetch_add(&stack->x_sum, sum, __ATOMIC_RELAXED);
    return NULL;
}

static void run_stack(struct ps_bounded *pool, size_t rounds) {
    enum { THREADS = 4 };
    struct stack stack = {.domain = new_domain(64, 0, true), .pool = pool, .rounds = rounds};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, push_and_pop, &stack) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (struct node *node; (node = pop(&stack)) != NULL;) {
        stack.x_sum += node->value;
        CHECK(ps_retire(stack.domain, node, free_node, pool));
    }
    CHECK_EQ(stack.x_sum, 0);
    ps_retire_destroy(stack.domain);
}

TEST(a_stack_pops_what_others_read) {
    run_stack(NULL, 30000 / FRESH_SLOWNESS);
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct node), 0, 3000, NULL);
    REQUIRE(pool != NULL);
    run_stack(pool, 30000 / FRESH_SLOWNESS);
    CHECK(ps_bounded_check(pool));
    struct ps_bounded_stats stats;
    ps_bounded_stats(pool, &stats);
    CHECK_EQ(stats.used_count, 0);
    ps_bounded_destroy(pool);
}

/* ---- the barrier ---- */

TEST(everything_holds_with_readers_that_make_the_barrier) {
    setenv(FENCED, "1", 1);
    (void)respawn(NULL, "");
    unsetenv(FENCED);
}

FRESH_TEST(a_system_without_a_barrier_in_all_threads_will_do) {
    refuse_call(SYS_membarrier, ENOSYS);
    struct reader reader = {new_domain(64, 0, false), 0};
    pthread_t thread = start_reader(&reader);
    CHECK(ps_retire(reader.domain, &objects[0], note, NULL));
    CHECK_EQ(ps_retire_collect(reader.domain), 0);
    end_reader(&reader, thread);
    CHECK(ps_retire_wait(reader.domain));
    check_freed_once(1);
    ps_retire_destroy(reader.domain);
    run_stack(NULL, 3000);
}

FRESH_TEST(without_its_barrier_a_domain_frees_nothing) {
    if (ps_debug_is_check() || getenv(FENCED) != NULL) {
        return; /* readers make their own */
    }
    struct ps_retire *domain = new_domain(64, 0, false);
    bool has_barriers = syscall(SYS_membarrier, 1 << 3, 0, 0) == 0;
    refuse_call(SYS_membarrier, EPERM);
    if (!has_barriers) {
        UNIT_SKIP("the system has no barrier in all threads");
    }
    size_t count = 0;
    errno = 0;
    while (count < 100 && ps_retire(domain, &objects[count], note, NULL)) {
        count++;
    }
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(count, 64);
    CHECK_EQ(x_freed, 0);
    ps_retire_destroy(domain);
    check_freed_once(64);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
