// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Level 1: a freed block is zero after its mark, at once, whichever thread frees it and in
 * whichever order.
 */
#include "tests/unit/announced.h"
#include "tests/unit/engine.h"

#include <pthread.h>

#define BLOCKS 600

static unsigned char *blocks[BLOCKS];

static void fill(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 0x5a, bytes);
    }
}

static bool is_zero_after_mark(const unsigned char *block, size_t bytes) {
    for (size_t i = sizeof(void *); i < bytes; i++) {
        if (block[i] != 0) {
            return false;
        }
    }
    return true;
}

static void start(void) {
    engine_config.harden = 1;
    ps_engine_start();
}

FRESH_TEST(a_freed_block_of_any_class_is_zero) {
    start();
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        size_t bytes = ps_size_classes[i].block_bytes;
        fill(3, bytes);
        ps_heap_free(blocks[1]);
        CHECK(is_zero_after_mark(blocks[1], bytes));
        CHECK_EQ(blocks[0][bytes - 1], 0x5a);
        CHECK_EQ(blocks[2][0], 0x5a);
    }
}

FRESH_TEST(a_run_that_cannot_grow_keeps_its_contents) {
    const size_t sizes[] = {100 * KIB, 600 * KIB, 3 * MIB};
    start();
    for (size_t i = 0; i < 3; i++) {
        fill(1, sizes[i]);
        CHECK(ps_block_resize(blocks[0], SIZE_MAX - 15) == NULL);
        CHECK_EQ(blocks[0][0], 0x5a);
        CHECK_EQ(blocks[0][sizes[i] - 1], 0x5a);
        ps_heap_free(blocks[0]);
    }
}

FRESH_TEST(a_run_that_shrinks_is_zero_behind_what_it_keeps) {
    start();
    fill(1, 2 * MIB);
    CHECK_PTR_EQ(ps_block_resize(blocks[0], MIB), blocks[0]);
    CHECK_EQ(blocks[0][MIB - 1], 0x5a);
    CHECK(engine_is_zero(blocks[0] + MIB, MIB));
}

FRESH_TEST(blocks_freed_in_sequence_are_zero_at_once) {
    start();
    const size_t sizes[] = {8, 16, 24, 112, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fill(BLOCKS, sizes[i]);
        for (size_t j = 0; j + 10 < BLOCKS; j++) {
            ps_heap_free(blocks[j]);
            CHECK(is_zero_after_mark(blocks[j], sizes[i]));
        }
        CHECK_EQ(ps_front_thread.streak_step, 0);
        CHECK_EQ(blocks[BLOCKS - 10][0], 0x5a);
    }
}

static void *free_all(void *unused) {
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    return unused;
}

FRESH_TEST(blocks_of_another_thread_are_zeroed_alike) {
    start();
    fill(BLOCKS, 64);
    pthread_t thread = announced_create(free_all, NULL);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(is_zero_after_mark(blocks[i], 64));
    }
}

FRESH_TEST(a_second_free_is_named_at_once_wherever_the_block_is) {
    start();
    fill(BLOCKS, 64);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i += 7) { /* in the front, or in the store */
        CHECK_ABORTS(ps_heap_free(blocks[i]), "poolshim: double free of 0x");
    }
}

UNIT_MAIN
