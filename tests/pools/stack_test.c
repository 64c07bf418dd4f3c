/* SPDX-License-Identifier: MIT */
/*
 * Stack: blocks, frames, marks, realloc in place, sizes and alignments at their limits, memory that
 * is out at every call site.
 */
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/small_stack.h"

#define ENDLESS SIZE_MAX

TEST(blocks_are_aligned_apart_and_writable) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *last_end = NULL;
    for (size_t bytes = 0; bytes < 300; bytes++) {
        char *block = ps_stack_alloc(stack, bytes);
        REQUIRE(block != NULL);
        CHECK_EQ((uintptr_t)block % PS_ALIGN_DEFAULT, 0);
        CHECK(last_end == NULL || block >= last_end);
        memset(block, 1, bytes);
        last_end = block + bytes + (bytes == 0);
    }
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
    ps_stack_destroy(NULL);
}

TEST(small_blocks_lie_side_by_side) {
    NEEDS_CHUNKS();
    struct ps_stack *stack = ps_stack_create(NULL);
    char *first = ps_stack_alloc_aligned(stack, 8, 8);
    size_t apart = has_canaries() ? 80 : 8;
    for (size_t i = 1; i < 200; i++) {
        CHECK_PTR_EQ(ps_stack_alloc_aligned(stack, 8, 8), first + apart * i);
    }
    ps_stack_destroy(stack);
}

TEST(size_zero_gives_a_pointer_of_its_own) {
    NEEDS_CHUNKS();
    struct ps_stack *stack = ps_stack_create(NULL);
    char *one = ps_stack_alloc(stack, 0);
    char *two = ps_stack_alloc(stack, 0);
    char *three = ps_stack_alloc_aligned(stack, 0, 1);
    CHECK(one != NULL && two != NULL && three != NULL && one != two && two != three);
    char *grown = ps_stack_realloc_aligned(stack, three, 0, 10, 1);
    CHECK_PTR_EQ(grown, three);
    memset(grown, 1, 10);
    CHECK(ps_stack_realloc(stack, NULL, 0, 0) != NULL);
    CHECK(ps_stack_zalloc(stack, 0) != NULL);
    CHECK(ps_stack_alloc_array(stack, 0, 100, 8) != NULL);
    ps_stack_destroy(stack);
}

TEST(every_alignment_is_kept_also_in_new_chunks) {
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 1024, 4096);
    for (int round = 0; round < 20; round++) {
        for (size_t align = 1; align <= 1 << 20; align *= 2) {
            char *block = ps_stack_alloc_aligned(stack, 100, align);
            REQUIRE(block != NULL);
            CHECK_EQ((uintptr_t)block % align, 0);
            memset(block, 1, 100);
        }
    }
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(a_bad_alignment_is_einval) {
    struct ps_stack *stack = ps_stack_create(NULL);
    volatile size_t bad[] = {0, 3, 24, 48, SIZE_MAX};
    void *block = ps_stack_alloc(stack, 48);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        CHECK(ps_stack_alloc_aligned(stack, 8, bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
        errno = 0;
        CHECK(ps_stack_realloc_aligned(stack, block, 48, 64, bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    ps_stack_destroy(stack);
}

TEST(sizes_that_overflow_are_enomem_and_change_nothing) {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *block = ps_stack_alloc(stack, 100);
    struct ps_stack_stats before, after;
    ps_stack_stats(stack, &before);
    volatile size_t sizes[] = {SIZE_MAX,       SIZE_MAX - 15,           SIZE_MAX - 100,
                               PTRDIFF_MAX,    (size_t)PTRDIFF_MAX + 1, SIZE_MAX - (size_t)block,
                               SIZE_MAX - 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t align = 1; align != 0; align *= 2) {
            errno = 0;
            CHECK(ps_stack_alloc_aligned(stack, sizes[i], align) == NULL);
            CHECK_EQ(errno, ENOMEM);
            errno = 0;
            CHECK(ps_stack_realloc_aligned(stack, block, 100, sizes[i], align) == NULL);
            CHECK_EQ(errno, ENOMEM);
        }
        CHECK(ps_stack_zalloc(stack, sizes[i]) == NULL);
        errno = 0;
        CHECK(ps_stack_alloc_array(stack, sizes[i], 16, 16) == NULL);
        CHECK_EQ(errno, ENOMEM);
        CHECK(ps_stack_alloc_array(stack, sizes[i], 2, 16) == NULL);
    }
    CHECK(ps_stack_alloc_aligned(stack, 1, (size_t)1 << 63) == NULL);
    ps_stack_stats(stack, &after);
    CHECK_EQ(before.used_bytes, after.used_bytes);
    CHECK_EQ(before.chunk_count, after.chunk_count);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(pop_frees_all_of_its_frame_and_nothing_else) {
    NEEDS_CHUNKS();
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *outer = ps_stack_push(stack);
    char *kept = ps_stack_strdup(stack, "kept");
    char *first = NULL;
    for (int round = 0; round < 100; round++) {
        struct ps_stack_frame *inner = ps_stack_push(stack);
        char *block = ps_stack_alloc(stack, 1000);
        CHECK(first == NULL || block == first);
        first = block;
        memset(block, round, 1000);
        for (int i = 0; i < 1000; i++) {
            memset(ps_stack_alloc(stack, 200), i, 200);
        }
        ps_stack_pop(stack, inner);
    }
    CHECK_STR_EQ(kept, "kept");
    ps_stack_pop(stack, outer);
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    CHECK_EQ(stats.used_bytes, 0);
    CHECK_EQ(stats.frame_count, 0);
    ps_stack_destroy(stack);
}

TEST(frames_nest_deep_and_start_in_any_chunk) {
    enum { DEPTH = 5000 };
    static struct ps_stack_frame *frames[DEPTH];
    static unsigned *values[DEPTH];
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 1024, 2048);
    for (unsigned i = 0; i < DEPTH; i++) {
        frames[i] = ps_stack_push(stack);
        REQUIRE(frames[i] != NULL);
        values[i] = ps_stack_alloc_aligned(stack, 4 + i % 7, 4);
        *values[i] = i;
    }
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    CHECK_EQ(stats.frame_count, DEPTH);
    for (unsigned i = DEPTH; i-- > 0;) {
        CHECK(ps_stack_is_innermost(stack, frames[i]));
        CHECK_EQ(*values[i], i);
        ps_stack_pop(stack, frames[i]);
        CHECK(!ps_stack_is_innermost(stack, frames[i]));
    }
    ps_stack_stats(stack, &stats);
    CHECK_EQ(stats.used_bytes, 0);
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(a_block_larger_than_a_chunk_has_its_own) {
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 4096, 8192);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *block = ps_stack_alloc(stack, 100000);
    REQUIRE(block != NULL);
    memset(block, 1, 100000);
    char *next = ps_stack_alloc(stack, 100000);
    REQUIRE(next != NULL);
    CHECK(next >= block + 100000 || next + 100000 <= block);
    memset(next, 1, 100000);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_count, 0);
}

TEST(realloc_of_the_newest_block_stays_where_it_is) {
    NEEDS_CHUNKS();
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *block = ps_stack_alloc(stack, 10);
    memcpy(block, "123456789", 10);
    CHECK_PTR_EQ(ps_stack_realloc(stack, block, 10, 1000), block);
    memset(block + 10, 1, 990);
    CHECK_PTR_EQ(ps_stack_realloc(stack, block, 1000, 20), block);
    CHECK_STR_EQ(block, "123456789");
    char *next = ps_stack_alloc_aligned(stack, 1, 1);
    CHECK_PTR_EQ(next, block + (has_canaries() ? 48 + 48 : 24));
    WHEN("it is not the newest any more");
    CHECK_PTR_EQ(ps_stack_realloc(stack, block, 20, 15), block);
    char *moved = ps_stack_realloc(stack, block, 15, 30);
    CHECK(moved != block);
    CHECK_STR_EQ(moved, "123456789");
    WHEN("the alignment asks for more than the block has");
    char *odd = ps_stack_alloc_aligned(stack, 3, 1);
    odd = (uintptr_t)odd % 64 == 0 ? ps_stack_alloc_aligned(stack, 3, 1) : odd;
    memcpy(odd, "ab", 3);
    char *aligned = ps_stack_realloc_aligned(stack, odd, 3, 3, 64);
    CHECK_EQ((uintptr_t)aligned % 64, 0);
    CHECK_STR_EQ(aligned, "ab");
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(realloc_after_an_inner_frame_is_still_in_place) {
    NEEDS_CHUNKS();
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    for (size_t bytes = 1; bytes < 40; bytes++) {
        char *block = ps_stack_alloc_aligned(stack, bytes, 1);
        struct ps_stack_frame *inner = ps_stack_push(stack);
        memset(ps_stack_alloc(stack, 100), 1, 100);
        ps_stack_pop(stack, inner);
        CHECK_PTR_EQ(ps_stack_realloc_aligned(stack, block, bytes, bytes + 1, 1), block);
    }
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(an_array_that_grows_by_one_moves_seldom) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 4096, 16384);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    size_t count = 0;
    unsigned moves = 0;
    uint64_t *array = NULL;
    while (count < 200000) {
        uint64_t *grown = ps_stack_realloc(stack, array, count * 8, (count + 1) * 8);
        REQUIRE(grown != NULL);
        moves += grown != array;
        array = grown;
        array[count] = count;
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        REQUIRE(array[i] == i);
    }
    CHECK_CMP(moves, <, 25);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(free_last_frees_the_newest_block_of_the_frame) {
    NEEDS_CHUNKS();
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *one = ps_stack_alloc(stack, 16);
    char *two = ps_stack_alloc(stack, 7);
    CHECK(!ps_stack_free_last(stack, one, 16));
    CHECK(ps_stack_free_last(stack, two, 7));
    CHECK(ps_stack_free_last(stack, one, 16));
    CHECK_PTR_EQ(ps_stack_alloc(stack, 0), one);
    CHECK(ps_stack_free_last(stack, one, 0));
    one = ps_stack_alloc(stack, 16);
    struct ps_stack_frame *inner = ps_stack_push(stack);
    CHECK(!ps_stack_free_last(stack, one, 16));
    CHECK(!ps_stack_free_last(stack, NULL, 0));
    ps_stack_pop(stack, inner);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
}

TEST(rewind_frees_what_is_newer_than_the_mark_again_and_again) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 1024, 2048);
    char *kept = ps_stack_strdup(stack, "kept");
    struct ps_stack_mark mark = ps_stack_mark(stack);
    char *first = ps_stack_alloc(stack, 16);
    ps_stack_rewind(stack, mark);
    for (int round = 0; round < 50; round++) {
        CHECK_PTR_EQ(ps_stack_alloc(stack, 16), first);
        for (int i = 0; i < round; i++) {
            memset(ps_stack_alloc(stack, 300), i, 300);
        }
        struct ps_stack_mark inner = ps_stack_mark(stack);
        memset(ps_stack_alloc(stack, 5000), 1, 5000);
        ps_stack_rewind(stack, inner);
        ps_stack_rewind(stack, inner);
        ps_stack_rewind(stack, mark);
    }
    CHECK_STR_EQ(kept, "kept");
    WHEN("the mark is of a frame");
    struct ps_stack_frame *frame = ps_stack_push(stack);
    mark = ps_stack_mark(stack);
    struct ps_stack_frame *inner = ps_stack_push(stack);
    ps_stack_pop(stack, inner);
    ps_stack_rewind(stack, mark);
    ps_stack_pop(stack, frame);
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(texts_and_copies) {
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 1024, 1024);
    for (int width = 0; width < 3000; width += 7) {
        struct ps_stack_frame *frame = ps_stack_push(stack);
        char *before = ps_stack_strdup(stack, "before");
        char *text = ps_stack_printf(stack, "%*d|", width, 42);
        char *after = ps_stack_strdup(stack, "after");
        CHECK_EQ(strlen(text), (width > 2 ? width : 2) + 1);
        CHECK_EQ(text[strlen(text) - 1], '|');
        CHECK_STR_EQ(before, "before");
        CHECK_STR_EQ(after, "after");
        ps_stack_pop(stack, frame);
    }
    CHECK_STR_EQ(ps_stack_strndup(stack, "abcdef", 3), "abc");
    CHECK_STR_EQ(ps_stack_strndup(stack, "abc", 100), "abc");
    CHECK_STR_EQ(ps_stack_strndup(stack, "abc", 0), "");
    CHECK_STR_EQ(ps_stack_strdup(stack, ""), "");
    CHECK_EQ(memcmp(ps_stack_memdup(stack, "abc", 4), "abc", 4), 0);
    CHECK(ps_stack_memdup(stack, NULL, 0) != NULL);
    int *zeroed = ps_stack_zalloc(stack, 4000);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(zeroed[i], 0);
    }
    short *numbers = ps_stack_new(stack, short, 3);
    numbers[2] = 1;
    ps_stack_destroy(stack);
}

TEST(owns_name_and_stats) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack_options options = {.chunks = {.source = &source.source, .name = "mine"}};
    struct ps_stack *stack = ps_stack_create(&options);
    int elsewhere;
    CHECK_STR_EQ(ps_stack_name(stack), "mine");
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *block = ps_stack_alloc(stack, 100);
    char *far = ps_stack_alloc(stack, 1 << 20);
    char *last = ps_stack_alloc_aligned(stack, 10, 1);
    CHECK(ps_stack_owns(stack, block) && ps_stack_owns(stack, block + 99));
    CHECK(ps_stack_owns(stack, far) && ps_stack_owns(stack, last + 9));
    CHECK(!ps_stack_owns(stack, last + 32) && !ps_stack_owns(stack, &elsewhere));
    CHECK(!ps_stack_owns(stack, NULL));
    struct ps_stack_stats stats;
    ps_stack_stats(stack, &stats);
    CHECK_STR_EQ(stats.name, "mine");
    CHECK_EQ(stats.held_bytes, source.live_bytes);
    CHECK_EQ(stats.chunk_count, source.calls);
    CHECK_EQ(stats.frame_count, 1);
    CHECK_CMP(stats.used_bytes, >=, 100 + (1 << 20) + 10);
    CHECK_CMP(stats.used_bytes, <=, stats.held_bytes);
    ps_stack_pop(stack, frame);
    CHECK(!ps_stack_owns(stack, block));
    ps_stack_reset(stack);
    ps_stack_destroy(stack);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(reset_forgets_frames_and_keeps_chunks) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(ENDLESS);
    struct ps_stack *stack = small_stack(&source, 1024, 4096);
    char *first = ps_stack_alloc(stack, 8);
    for (int round = 0; round < 10; round++) {
        ps_stack_push(stack);
        ps_stack_push(stack);
        for (int i = 0; i < 100; i++) {
            memset(ps_stack_alloc(stack, 100), 1, 100);
        }
        ps_stack_reset(stack);
        CHECK_EQ(source.free_count, 0);
        CHECK_PTR_EQ(ps_stack_alloc(stack, 8), first);
        ps_stack_reset(stack);
    }
    CHECK_CMP(source.calls, <, 8);
    ps_stack_destroy(stack);
}

/* Every operation once, at a stack whose source gives `allows` chunks. Returns whether all went. */
static bool all_operations(size_t allows) {
    struct counting_source source = new_source(allows);
    struct ps_stack_options options = {
        .chunks = {.source = &source.source, .first_bytes = 512, .max_bytes = 512}};
    errno = 0;
    struct ps_stack *stack = ps_stack_create(&options);
    bool is_complete = false;
    if (stack != NULL) {
        struct ps_stack_frame *frame = ps_stack_push(stack);
        char *block = NULL;
        is_complete = (block = ps_stack_alloc(stack, 600)) != NULL && memset(block, 7, 600) &&
                      (block = ps_stack_realloc(stack, block, 600, 2000)) != NULL &&
                      ps_stack_zalloc(stack, 2000) != NULL &&
                      ps_stack_alloc_aligned(stack, 10, 4096) != NULL &&
                      ps_stack_memdup(stack, block, 600) != NULL &&
                      ps_stack_printf(stack, "%1000d", 1) != NULL &&
                      ps_stack_alloc_array(stack, 100, 20, 4) != NULL;
        for (int i = 0; is_complete && i < 40; i++) {
            is_complete = ps_stack_push(stack) != NULL;
        }
        if (block != NULL) {
            CHECK(block[0] == 7 && block[599] == 7);
        }
        CHECK(is_complete || errno == ENOMEM);
        struct ps_stack_stats stats;
        ps_stack_stats(stack, &stats);
        CHECK_EQ(stats.held_bytes, source.live_bytes);
        if (frame != NULL) {
            ps_stack_unwind(stack, frame);
        }
        ps_stack_stats(stack, &stats);
        CHECK_EQ(stats.used_bytes, 0);
        ps_stack_destroy(stack);
    }
    CHECK(is_complete || errno == ENOMEM);
    CHECK_EQ(source.live_bytes, 0);
    return is_complete;
}

TEST(memory_may_be_out_at_every_call) {
    NEEDS_CHUNKS();
    size_t allows = 0;
    while (!all_operations(allows)) {
        allows++;
        REQUIRE(allows < 100);
    }
    CHECK_CMP(allows, >, 5);
}

TEST(release_keeps_errno) {
    struct ps_stack *stack = ps_stack_create(NULL);
    errno = 77;
    struct ps_stack_frame *frame = ps_stack_push(stack);
    memset(ps_stack_alloc(stack, 3 << 20), 1, 10);
    ps_stack_pop(stack, frame);
    ps_stack_pop(stack, NULL);
    ps_stack_trim_to(stack, 0);
    ps_stack_reset(stack);
    ps_stack_destroy(stack);
    CHECK_EQ(errno, 77);
}

UNIT_MAIN
