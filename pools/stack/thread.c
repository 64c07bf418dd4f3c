/* SPDX-License-Identifier: MIT */
/*
 * The stack of each thread: made by its first use, destroyed at thread exit by a key of pthreads,
 * which every thread that has a stack sets. A destructor that uses the stack after that makes a new
 * one and sets the key again; pthreads calls the key's destructor again, a limited number of times.
 * A child after fork has the stack of the thread that forked, as it was; the stacks of other
 * threads remain allocated, unused. Callers: stack.c. No locks but pthread_once.
 */
#include "pools/stack/stack.h"

#include <errno.h>

__thread struct ps_stack ps_t_stack = {NULL, NULL, PS_STACK_CLOSED, NULL};

static pthread_key_t key;
static bool has_key; /* false: the system has no key left, and stacks outlive their threads */

static void destroy_of_thread(void *value) {
    struct ps_stack_body *body = value;
    ps_stack_reset(&ps_t_stack);
    ps_t_stack = (struct ps_stack){NULL, NULL, PS_STACK_CLOSED, NULL};
    ps_stack_destroy_body(body);
}

static void make_key(void) { has_key = pthread_key_create(&key, destroy_of_thread) == 0; }

bool ps_stack_create_of_thread(struct ps_stack *stack) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    static const struct ps_stack_options options = {.chunks = {.name = "thread's stack"}};
    struct ps_stack_body *body = ps_stack_create_body(&options);
    if (body == NULL) {
        return false;
    }
    if (has_key) {
        pthread_setspecific(key,
                            body); /* may allocate; if it fails the stack outlives the thread */
    }
    body->is_of_thread = true;
    ps_stack_empty(stack, body);
    ps_stack_leave(stack);
    return true;
}
