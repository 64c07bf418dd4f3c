/* SPDX-License-Identifier: MIT */
/*
 * What tests of fronts push and pop: blocks of one class, from the store. One thread.
 */
#ifndef PS_TESTS_UNIT_FRONT_BLOCKS_H
#define PS_TESTS_UNIT_FRONT_BLOCKS_H

#include "tests/unit/front_ways.h"

#define BYTES 48
#define TRIES 1000 /* a sequence may be aborted */
#define BLOCKS 1000

static uint32_t class_index;
static void *blocks[BLOCKS];

static inline struct ps_front *own(void) { return ps_front_thread.own; }

static inline bool push(void *block) {
    ps_mark_set(block);
    for (int i = 0; i < TRIES; i++) {
        if (ps_front_push(own(), class_index, block)) {
            return true;
        }
    }
    return false;
}

static inline void *pop(void) {
    for (int i = 0; i < TRIES; i++) {
        void *block = ps_front_pop(own(), class_index);
        if (block != NULL) {
            return block;
        }
    }
    return NULL;
}

static inline size_t count(void) { return ps_front_blocks(class_index); }

/* Blocks of the store for the test; the front has none. */
static inline void choose_class(size_t bytes) {
    class_index = ps_size_class_of(bytes);
    for (size_t got = 0; got < BLOCKS;) {
        size_t more = ps_store_take(class_index, &blocks[got], ps_min(BLOCKS - got, PS_STORE_BATCH),
                                    NULL, false);
        got += more;
        REQUIRE(more != 0 || ps_store_grow(class_index));
    }
    CHECK_EQ(count(), 0);
}

/* False: see start_in_way. */
static inline bool begin(enum way way, size_t bytes) {
    stay_on_a_processor();
    bool has_started = start_in_way(way);
    if (has_started) {
        choose_class(bytes);
    }
    return has_started;
}

static inline void raise_to(size_t blocks_wanted) {
    for (size_t limit = 1; limit < blocks_wanted; limit *= 2) {
        (void)ps_front_raise(own(), class_index);
    }
}

static inline bool is_in_store(const void *block) {
    return ps_slab_is_free(ps_slab_of(block), block);
}

#endif
