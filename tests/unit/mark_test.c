// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * What the marks of free blocks and the bits of slabs show about a free: that it is the second one,
 * and that a correct one is not taken for that.
 */
#include "tests/unit/engine.h"

ENGINE_LONG_CLASSES

#define COUNT 600 /* more than a front has of a class */

static char *blocks[COUNT];

static void take(size_t bytes) {
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        REQUIRE(blocks[i] != NULL);
    }
}

static void free_odd(void) {
    for (size_t i = 1; i < COUNT; i += 2) {
        ps_heap_free(blocks[i]);
    }
}

static const size_t sizes[] = {8, 24, 64, 200, 1000, 4096, 5000, 20000, 60000};
#define SIZES (sizeof sizes / sizeof sizes[0])

FRESH_TEST(a_second_free_is_found_whatever_was_freed_since) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        free_odd();
        for (size_t i = 1; i < COUNT; i += 18) {
            CHECK_ABORTS(ps_heap_free(blocks[i]), "double free of");
        }
        CHECK_ABORTS((void)ps_block_resize(blocks[21], sizes[s]), "realloc of free block");
        CHECK_ABORTS((void)ps_block_usable(blocks[51]), "size of free block");
    }
}

FRESH_TEST(a_block_that_was_never_granted_cannot_be_freed) {
    for (size_t s = 0; s < SIZES; s++) {
        char *block = ps_heap_alloc(sizes[s]);
        char *next = block + ps_slab_class(ps_slab_of(block))->block_bytes;
        CHECK_ABORTS(ps_heap_free(next), "double free of");
        CHECK_PTR_EQ(ps_heap_alloc(sizes[s]), next);
        ps_heap_free(next);
    }
}

FRESH_TEST(marks_tell_no_address) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        free_odd();
        for (size_t i = 1; i < COUNT; i += 2) {
            uintptr_t word = *(uintptr_t *)blocks[i];
            CHECK((word ^ (uintptr_t)blocks[i]) >> 40 != 0);
        }
    }
}

FRESH_TEST(a_streak_that_goes_on_behind_the_newest_block_is_found_when_it_ends) {
    take(64);
    size_t i = 0;
    while (ps_front_thread.streak_next == NULL && i < COUNT) {
        ps_heap_free(blocks[i++]);
    }
    REQUIRE(i < COUNT);
    for (; i < COUNT; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_PTR_EQ(ps_front_thread.streak_next, blocks[COUNT - 1] + 64);
    ps_heap_free(ps_front_thread.streak_next);
    CHECK_ABORTS(ps_front_thread_ended(), "double free of");
}

FRESH_TEST(a_block_freed_once_alone_and_once_in_a_streak_is_found_when_that_ends) {
    take(64);
    ps_heap_free(blocks[400]);
    for (size_t i = 0; i < COUNT - 1; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_CMP((uintptr_t)ps_front_thread.streak_next, >, (uintptr_t)blocks[400]);
    CHECK_ABORTS(ps_front_thread_ended(), "double free of");
}

UNIT_MAIN
