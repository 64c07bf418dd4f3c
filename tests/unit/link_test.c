// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * What the links of free blocks show about a free: that it is the second one, and that a correct
 * one is not taken for that.
 */
#include "tests/unit/engine.h"

ENGINE_HEAPS
ENGINE_LONG_CLASSES

#define COUNT 200

static char *blocks[COUNT];

static struct ps_span *span_of(const void *block) {
    return ps_span_of_inside(ps_page_map_slot(block), block);
}

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
        char *next = block + span_of(block)->block_bytes;
        CHECK_ABORTS(ps_heap_free(next), "double free of");
        CHECK_PTR_EQ(ps_heap_alloc(sizes[s]), next);
        ps_heap_free(next);
    }
}

FRESH_TEST(links_tell_no_address) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        free_odd();
        for (size_t i = 1; i < COUNT; i += 2) {
            uintptr_t word = *(uintptr_t *)blocks[i];
            CHECK((word ^ (uintptr_t)blocks[i]) >> 40 != 0);
        }
    }
}

FRESH_TEST(a_word_that_resembles_a_link_is_no_double_free) {
    static const size_t small[] = {24, 64, 200, 1000, 4096};
    for (size_t s = 0; s < sizeof small / sizeof small[0]; s++) {
        char *block = ps_heap_alloc(small[s]);
        for (size_t i = 1; i < 16; i += 2) { /* near, but inside of a block */
            ps_link_write(block, block + 2 * i, span_of(block)->salt);
            ps_heap_free(block);
            CHECK_PTR_EQ(ps_heap_alloc(small[s]), block);
        }
    }
}

/* Memory that a span had before still has its links: whatever the low bytes are, such a word is not
 * the mark of a block in a cache. */
FRESH_TEST(a_link_of_the_first_span_is_no_mark) {
    char *block = ps_heap_alloc(64); /* the first span's */
    uintptr_t low = PS_GRANULE_BYTES - 1;
    uintptr_t link = ps_link_stored(block, span_of(block)->salt);
    *(uintptr_t *)block = (link & ~low) | (ps_link_mark(block) & low);
    CHECK(!ps_link_is_marked(block));
}

FRESH_TEST(a_link_from_before_a_reset_is_invalid) {
    ps_engine_start();
    struct ps_span *span = ps_span_create(ps_size_class_of(64), PS_KEY_AT_ONCE);
    REQUIRE(span != NULL);
    char *block = ps_span_block(span, 5);
    for (int round = 0; round < 1000; round++) {
        ps_link_write(block, ps_span_block(span, 6), span->salt);
        CHECK(ps_span_is_listed(span, block));
        ps_span_reset(span);
        CHECK(!ps_span_is_listed(span, block));
    }
}

FRESH_TEST(a_streak_that_goes_on_behind_the_newest_block_is_found_when_it_ends) {
    take(64);
    size_t i = 0;
    while (ps_thread.streak_next == NULL && i < COUNT) {
        ps_heap_free(blocks[i++]);
    }
    REQUIRE(i < COUNT);
    for (; i < COUNT; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_PTR_EQ(ps_thread.streak_next, blocks[COUNT - 1] + 64);
    ps_heap_free(ps_thread.streak_next);
    CHECK_ABORTS(ps_heap_give_up(), "double free of");
}

FRESH_TEST(a_block_freed_once_alone_and_once_in_a_streak_is_found_when_that_ends) {
    take(64);
    ps_heap_free(blocks[100]);
    for (size_t i = 0; i < COUNT - 1; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_CMP((uintptr_t)ps_thread.streak_next, >, (uintptr_t)blocks[100]);
    CHECK_ABORTS(ps_heap_give_up(), "double free of");
}

UNIT_MAIN
