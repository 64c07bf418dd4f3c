/* SPDX-License-Identifier: MIT */
/*
 * allocator.h: the same code over malloc, a stack, the stack of the thread, a static buffer with
 * and without a fallback, and an allocator that cannot realloc.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <poolshim/stack.h>

/* What a program would write once: a text that grows. */
struct text {
    struct ps_allocator *allocator;
    char *bytes;
    size_t length;
    size_t capacity;
};

static bool text_add(struct text *text, char c) {
    if (text->length == text->capacity) {
        size_t capacity = text->capacity * 2 + 8;
        char *grown = ps_allocator_realloc(text->allocator, text->bytes, text->capacity, capacity);
        if (grown == NULL) {
            return false;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    text->bytes[text->length++] = c;
    return true;
}

static size_t fill(struct text *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (!text_add(text, (char)('a' + i % 26))) {
            break;
        }
    }
    for (size_t i = 0; i < text->length; i++) {
        REQUIRE(text->bytes[i] == (char)('a' + i % 26));
    }
    return text->length;
}

/* Every function, at every allocator. */
static void exercise(struct ps_allocator *allocator) {
    struct text text = {allocator, NULL, 0, 0};
    CHECK_EQ(fill(&text, 10000), 10000);
    ps_allocator_free(allocator, text.bytes, text.capacity);
    for (size_t align = 1; align <= 4096; align *= 2) {
        char *block = ps_allocator_alloc_aligned(allocator, 100, align);
        REQUIRE(block != NULL);
        CHECK_EQ((uintptr_t)block % align, 0);
        memset(block, 5, 100);
        block = ps_allocator_realloc_aligned(allocator, block, 100, 1000, align);
        REQUIRE(block != NULL);
        CHECK_EQ((uintptr_t)block % align, 0);
        CHECK(block[0] == 5 && block[99] == 5);
        block = ps_allocator_realloc_aligned(allocator, block, 1000, 50, align);
        CHECK(block != NULL && block[49] == 5);
        ps_allocator_free_aligned(allocator, block, 50, align);
    }
    char *empty = ps_allocator_alloc(allocator, 0);
    char *other = ps_allocator_alloc(allocator, 0);
    CHECK(empty != NULL && other != NULL && empty != other);
    other = ps_allocator_realloc(allocator, other, 0, 0);
    CHECK(other != NULL);
    ps_allocator_free(allocator, other, 0);
    ps_allocator_free(allocator, empty, 0);
    ps_allocator_free(allocator, NULL, 0);
    char *zeroed = ps_allocator_zalloc(allocator, 100);
    CHECK(zeroed[0] == 0 && zeroed[99] == 0);
    ps_allocator_free(allocator, zeroed, 100);
    char *copy = ps_allocator_strdup(allocator, "copy");
    CHECK_STR_EQ(copy, "copy");
    ps_allocator_free_aligned(allocator, copy, 5, 1);
    copy = ps_allocator_memdup(allocator, "copy", 5);
    CHECK_STR_EQ(copy, "copy");
    ps_allocator_free(allocator, copy, 5);
    ps_allocator_free(allocator, ps_allocator_memdup(allocator, NULL, 0), 0);
    volatile size_t huge[] = {SIZE_MAX, SIZE_MAX - 100, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        errno = 0;
        CHECK(ps_allocator_alloc(allocator, huge[i]) == NULL);
        CHECK_EQ(errno, ENOMEM);
        CHECK(ps_allocator_alloc_array(allocator, huge[i], 2) == NULL);
    }
    volatile size_t bad = 24;
    errno = 0;
    CHECK(ps_allocator_alloc_aligned(allocator, 8, bad) == NULL);
    CHECK_EQ(errno, EINVAL);
}

TEST(everything_over_malloc) {
    exercise(ps_allocator_malloc());
    CHECK_EQ(ps_allocator_malloc()->flags, PS_ALLOCATOR_ANY_THREAD);
}

TEST(everything_over_a_stack) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    struct ps_stack_allocator allocator;
    ps_stack_allocator_init(&allocator, stack);
    exercise(&allocator.allocator);
    CHECK_EQ(allocator.allocator.flags, PS_ALLOCATOR_BY_FRAME);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(everything_over_the_stack_of_the_thread) {
    PS_SCOPE;
    struct ps_stack_allocator allocator;
    ps_stack_allocator_init(&allocator, NULL);
    exercise(&allocator.allocator);
    CHECK_EQ(allocator.allocator.flags, PS_ALLOCATOR_BY_FRAME | PS_ALLOCATOR_ANY_THREAD);
}

TEST(everything_over_buffers_with_a_fallback) {
    static char room[3000];
    for (size_t bytes = 0; bytes < sizeof room; bytes += 101) {
        struct ps_allocator_buffer buffer;
        ps_allocator_buffer_init(&buffer, bytes > 0 ? room + 1 : NULL, bytes,
                                 ps_allocator_malloc());
        exercise(&buffer.allocator);
        THEN("blocks that are freed newest first leave an empty buffer");
        CHECK_CMP(buffer.top - buffer.base, <, 4096 + 16);
    }
}

TEST(a_text_starts_in_the_buffer_and_moves_out_when_it_grows) {
    char room[256];
    struct ps_allocator_buffer buffer;
    ps_allocator_buffer_init(&buffer, room, sizeof room, ps_allocator_malloc());
    struct text text = {&buffer.allocator, NULL, 0, 0};
    fill(&text, 100);
    CHECK(text.bytes >= room && text.bytes < room + sizeof room);
    text.length = 0;
    CHECK_EQ(fill(&text, 1000), 1000);
    CHECK(text.bytes < room || text.bytes >= room + sizeof room);
    THEN("the buffer is free again");
    CHECK_PTR_EQ(buffer.top, buffer.base);
    ps_allocator_free(&buffer.allocator, text.bytes, text.capacity);
}

TEST(a_buffer_without_fallback_is_full_at_its_end) {
    static char room[1000] __attribute__((aligned(16)));
    struct ps_allocator_buffer buffer;
    ps_allocator_buffer_init(&buffer, room, sizeof room, NULL);
    size_t count = 0;
    errno = 0;
    while (ps_allocator_alloc_aligned(&buffer.allocator, 10, 1) != NULL) {
        count++;
    }
    CHECK_EQ(count, 100);
    CHECK_EQ(errno, ENOMEM);
    struct text text = {&buffer.allocator, NULL, 0, 0};
    CHECK_EQ(fill(&text, 10), 0);
}

TEST(an_allocator_without_realloc_moves_blocks) {
    struct ps_allocator plain = *ps_allocator_malloc();
    plain.realloc = NULL;
    exercise(&plain);
}

UNIT_MAIN
