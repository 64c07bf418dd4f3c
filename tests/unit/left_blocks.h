/* SPDX-License-Identifier: MIT */
/* Blocks that a thread allocates and leaves to others when it ends. */
#ifndef PS_TESTS_UNIT_LEFT_BLOCKS_H
#define PS_TESTS_UNIT_LEFT_BLOCKS_H

#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#define LEFT 400

static struct live_block left[LEFT];
static uint64_t state = 31;
static size_t any_size; /* for leave_blocks: each block has a size of its own */
static size_t one_size = 100;

static inline void leave_blocks(void *argument) {
    const size_t *bytes = argument;
    for (size_t i = 0; i < LEFT; i++) {
        size_t wanted = *bytes != 0 ? *bytes : engine_random(&state) % 2000;
        live_start(&left[i], ps_heap_alloc(wanted), wanted, engine_random(&state));
        REQUIRE(left[i].address != NULL);
    }
}

static inline void free_left(void *unused) {
    (void)unused;
    live_end_all(left, LEFT);
}

static inline void allocate_one_more(void *argument) {
    struct live_block *live = argument;
    live_start(live, ps_heap_alloc(one_size), one_size, 5);
    REQUIRE(live->address != NULL);
}

#endif
