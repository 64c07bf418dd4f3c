/* SPDX-License-Identifier: MIT */
/*
 * A source that fails when told to, counts, and remembers the longest chunk; and a way to run a
 * test under a value of PS_DEBUG, which is read once per process. Included by the tests of the
 * stack.
 */
#ifndef PS_TESTS_POOLS_STACK_SOURCE_H
#define PS_TESTS_POOLS_STACK_SOURCE_H

#include "tests/unit/fresh.h"

#include <errno.h>
#include <poolshim/stack.h>

struct counting_source {
    struct ps_source source;
    size_t allows; /* how many more chunks it gives */
    size_t alloc_count;
    size_t free_count;
    size_t held_bytes;
    size_t longest_bytes;
};

static void *counting_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct counting_source *counting = (struct counting_source *)source;
    if (counting->allows == 0) {
        errno = ENOMEM;
        return NULL;
    }
    void *chunk = ps_source_malloc()->alloc(ps_source_malloc(), bytes, align);
    if (chunk != NULL) {
        counting->allows--;
        counting->alloc_count++;
        counting->held_bytes += bytes;
        if (bytes > counting->longest_bytes) {
            counting->longest_bytes = bytes;
        }
    }
    return chunk;
}

static void counting_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct counting_source *counting = (struct counting_source *)source;
    counting->free_count++;
    counting->held_bytes -= bytes;
    ps_source_malloc()->free(ps_source_malloc(), chunk, bytes);
}

static inline struct counting_source counting_source(size_t allows) {
    return (struct counting_source){.source = {counting_alloc, counting_free}, .allows = allows};
}

/* A stack with small chunks on the source; first_bytes includes what the stack itself needs. */
static inline struct ps_stack *small_stack(struct counting_source *source, size_t first_bytes,
                                           size_t max_bytes) {
    struct ps_stack_options options = {
        .chunks = {.source = &source->source, .first_bytes = first_bytes, .max_bytes = max_bytes}};
    struct ps_stack *stack = ps_stack_create(&options);
    REQUIRE(stack != NULL);
    return stack;
}

/* As TEST, under PS_DEBUG=mode. Before anything else in the program has used a pool. */
#define DEBUG_TEST(mode, claim)                                                                    \
    static void claim##_in_mode(void);                                                             \
    FRESH_TEST(claim) {                                                                            \
        setenv("PS_DEBUG", (mode), 1);                                                             \
        claim##_in_mode();                                                                         \
    }                                                                                              \
    static void claim##_in_mode(void)

#endif
