/* SPDX-License-Identifier: MIT */
/*
 * A stack on the source of the pool tests. Included after fresh.h.
 */
#ifndef PS_TESTS_POOLS_SMALL_STACK_H
#define PS_TESTS_POOLS_SMALL_STACK_H

#include "tests/pools/counting_source.h"

#include <poolshim/stack.h>

/* A stack with small chunks on the source; first_bytes includes what the stack itself needs. */
static inline struct ps_stack *small_stack(struct counting_source *source, size_t first_bytes,
                                           size_t max_bytes) {
    struct ps_stack_options options = {
        .chunks = {.source = &source->source, .first_bytes = first_bytes, .max_bytes = max_bytes}};
    struct ps_stack *stack = ps_stack_create(&options);
    REQUIRE(stack != NULL);
    return stack;
}

#endif
