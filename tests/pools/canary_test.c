/* SPDX-License-Identifier: MIT */
/*
 * PS_DEBUG=check finds writes over the ends of blocks of regions, stacks, FIFOs, rings and slices,
 * and says which bytes of which block changed. Without it such writes are not noticed, and blocks
 * have nothing between them.
 */
#include "pools/common/poison.h"
#include "tests/unit/fresh.h"

#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <poolshim/fifo.h>
#include <poolshim/frames.h>
#include <poolshim/region.h>
#include <poolshim/ring.h>
#include <poolshim/slice.h>
#include <poolshim/stack.h>

#include <stdio.h>

enum { SIZES = 7 };

static const size_t sizes[SIZES] = {0, 1, 7, 16, 24, 100, 100000};

/* Calls of a family. All blocks come from one pool; its end ends them. */
struct family {
    const char *name; /* in the line */
    void *(*make)(void);
    void *(*alloc)(void *pool, size_t bytes, size_t align);
    void (*end)(void *pool);
    void (*check)(void *pool);
};

static struct ps_chunk_options named(void) { return (struct ps_chunk_options){.name = "requests"}; }

static void *region_make(void) {
    struct ps_region_options options = {.chunks = named()};
    return ps_region_create(&options);
}
static void *region_alloc(void *pool, size_t bytes, size_t align) {
    return ps_region_alloc_aligned(pool, bytes, align);
}
static void region_end(void *pool) { ps_region_destroy(pool); }
static void region_reset(void *pool) { ps_region_reset(pool); }
static void region_trim(void *pool) { ps_region_trim_to(pool, SIZE_MAX); }
static void region_check(void *pool) { ps_region_check(pool); }

static struct ps_stack_frame *frame; /* of the stack */
static void *stack_make(void) {
    struct ps_stack_options options = {.chunks = named()};
    struct ps_stack *stack = ps_stack_create(&options);
    frame = ps_stack_push(stack);
    return stack;
}
static void *stack_alloc(void *pool, size_t bytes, size_t align) {
    return ps_stack_alloc_aligned(pool, bytes, align);
}
static void stack_end(void *pool) { ps_stack_destroy(pool); }
static void stack_pop(void *pool) { ps_stack_pop(pool, frame); }
static void stack_reset(void *pool) { ps_stack_reset(pool); }
static void stack_trim(void *pool) { ps_stack_trim_to(pool, SIZE_MAX); }
static void stack_unwind(void *pool) {
    ps_stack_push(pool);
    ps_stack_unwind(pool, frame);
}
static void stack_check(void *pool) { ps_stack_check(pool); }

static void *fifo_make(void) {
    struct ps_fifo_options options = {.chunks = named()};
    return ps_fifo_create(&options);
}
static void *fifo_alloc(void *pool, size_t bytes, size_t align) {
    return ps_fifo_alloc_aligned(pool, bytes, align);
}
static void fifo_end(void *pool) { ps_fifo_destroy_now(pool); }
static void fifo_leave(void *pool) { ps_fifo_destroy(pool); }
static void fifo_trim(void *pool) { ps_fifo_trim_to(pool, SIZE_MAX); }
static void fifo_check(void *pool) { ps_fifo_check(pool); }

static struct ps_ring_frame *ring_frame;
static void *ring_make(void) {
    struct ps_ring_options options = {.chunks = named()};
    struct ps_ring *ring = ps_ring_create(&options);
    ring_frame = ps_ring_begin(ring);
    return ring;
}
static void *ring_alloc(void *pool, size_t bytes, size_t align) {
    return ps_ring_alloc_aligned(pool, bytes, align);
}
static void ring_end(void *pool) { ps_ring_destroy(pool); }
static void ring_release(void *pool) {
    ps_ring_seal(pool);
    ps_ring_release(ring_frame);
}
static void ring_trim(void *pool) { ps_ring_trim_to(pool, SIZE_MAX); }
static void ring_check(void *pool) { ps_ring_check(pool); }

static const struct family families[] = {
    {"region \"requests\"", region_make, region_alloc, region_end, region_check},
    {"stack \"requests\"", stack_make, stack_alloc, stack_end, stack_check},
    {"fifo \"requests\"", fifo_make, fifo_alloc, fifo_end, fifo_check},
    {"ring \"requests\"", ring_make, ring_alloc, ring_end, ring_check},
};

/* Other calls that look at all blocks. */
static const struct {
    size_t family;
    void (*call)(void *pool);
} others[] = {
    {0, region_reset}, {0, region_trim}, {1, stack_pop}, {1, stack_reset},  {1, stack_trim},
    {1, stack_unwind}, {2, fifo_leave},  {2, fifo_trim}, {3, ring_release}, {3, ring_trim},
};

/* A write that no sanitizer reports. */
static void write_over(char *block, ptrdiff_t from, size_t count) {
    ps_unpoison_defined(block + from, count);
    for (size_t i = 0; i < count; i++) {
        ((volatile char *)block)[from + (ptrdiff_t)i] = (char)i;
    }
}

/* The line for bytes first to last of the block. */
static const char *line_of(const char *where, const void *block, size_t bytes, ptrdiff_t first,
                           ptrdiff_t last, const char *pool) {
    static char line[256];
    if (first == last) {
        snprintf(line, sizeof line,
                 "poolshim: write %s block %p of %zu bytes, at byte %td, in %s\n", where, block,
                 bytes, first, pool);
    } else {
        snprintf(line, sizeof line,
                 "poolshim: write %s block %p of %zu bytes, from byte %td to byte %td, in %s\n",
                 where, block, bytes, first, last, pool);
    }
    return line;
}

static const char *behind(const void *block, size_t bytes, size_t count, const char *pool) {
    return line_of("behind the end of", block, bytes, (ptrdiff_t)bytes,
                   (ptrdiff_t)(bytes + count) - 1, pool);
}

static const char *in_front(const void *block, size_t bytes, size_t count, const char *pool) {
    return line_of("in front of", block, bytes, -(ptrdiff_t)count, -1, pool);
}

static void break_and_end(const struct family *family, void *pool, char *block, ptrdiff_t from,
                          size_t count) {
    write_over(block, from, count);
    family->end(pool);
}

/* A size of 0 is one of 1 in FIFOs and rings. */
static size_t real_bytes(const struct family *family, size_t bytes) {
    return family >= &families[2] && bytes == 0 ? 1 : bytes;
}

DEBUG_TEST(a_write_by_one_byte_over_either_end_of_any_block_is_found, "check") {
    for (size_t f = 0; f < 4; f++) {
        const struct family *family = &families[f];
        for (size_t s = 0; s < SIZES; s++) {
            for (size_t align = 1; align <= 4096; align *= 64) {
                void *pool = family->make();
                char *before = family->alloc(pool, 40, 16);
                char *block = family->alloc(pool, sizes[s], align);
                char *after = family->alloc(pool, 40, 16);
                REQUIRE(before != NULL && block != NULL && after != NULL);
                memset(before, 1, 40);
                memset(block, 2, sizes[s]);
                memset(after, 3, 40);
                family->check(pool);
                size_t bytes = real_bytes(family, sizes[s]);
                CHECK_ABORTS(break_and_end(family, pool, block, (ptrdiff_t)bytes, 1),
                             behind(block, bytes, 1, family->name));
                CHECK_ABORTS(break_and_end(family, pool, block, -1, 1),
                             in_front(block, bytes, 1, family->name));
                family->end(pool);
            }
        }
    }
}

/* Rounding counts as beyond the end. However far the write goes, over the next block or not: the
 * line names the block that it left. */
DEBUG_TEST(the_line_says_how_far_a_write_went, "check") {
    for (size_t f = 0; f < 4; f++) {
        const struct family *family = &families[f];
        void *pool = family->make();
        char *block = family->alloc(pool, 21, 16);
        char *after = family->alloc(pool, 400, 16);
        REQUIRE(after > block);
        /* 21 and 16 end at 37, and the canary at 48 */
        CHECK_ABORTS(break_and_end(family, pool, block, 21, 3), behind(block, 21, 3, family->name));
        CHECK_ABORTS(break_and_end(family, pool, block, 21, 27),
                     behind(block, 21, 27, family->name));
        CHECK_ABORTS(break_and_end(family, pool, block, 21, 300),
                     behind(block, 21, 27, family->name));
        CHECK_ABORTS(break_and_end(family, pool, after, -5, 5),
                     in_front(after, 400, 5, family->name));
        CHECK_ABORTS(break_and_end(family, pool, after, -16, 16),
                     in_front(after, 400, 16, family->name));
        CHECK_ABORTS(break_and_end(family, pool, after, -48, 48), ", over its record, in ");
        CHECK_ABORTS(break_and_end(family, pool, block, 40, 1),
                     line_of("behind the end of", block, 21, 40, 40, family->name));
        family->end(pool);
    }
}

DEBUG_TEST(every_call_that_ends_blocks_looks_at_them, "check") {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const struct family *family = &families[others[i].family];
        void *pool = family->make();
        for (int j = 0; j < 3000; j++) { /* several chunks */
            REQUIRE(family->alloc(pool, 100, 16) != NULL);
        }
        char *block = family->alloc(pool, 10, 16);
        REQUIRE(family->alloc(pool, 10, 16) != NULL);
        struct family ended_by_it = *family;
        ended_by_it.end = others[i].call;
        CHECK_ABORTS(break_and_end(&ended_by_it, pool, block, 10, 1),
                     behind(block, 10, 1, family->name));
        CHECK_ABORTS(break_and_end(&ended_by_it, pool, block, -1, 1),
                     in_front(block, 10, 1, family->name));
        family->end(pool);
    }
}

static void break_and_check(const struct family *family, void *pool, char *block, ptrdiff_t from,
                            size_t count) {
    write_over(block, from, count);
    family->check(pool);
}

DEBUG_TEST(blocks_keep_their_canaries_when_they_are_resized, "check") {
    struct ps_region *region = region_make();
    struct ps_stack *stack = stack_make();
    struct ps_fifo *fifo = fifo_make();
    struct ps_ring *ring = ring_make();
    void *pools[] = {region, stack, fifo, ring};
    char *blocks[] = {ps_region_alloc(region, 10), ps_stack_alloc(stack, 10),
                      ps_fifo_alloc(fifo, 10), ps_ring_alloc(ring, 10)};
    /* grown and cut in place; moved, with a newer one; cut, with a newer one */
    static const size_t steps[] = {10, 100, 55, 300, 5000, 41, 8};
    for (size_t i = 1; i < sizeof steps / sizeof steps[0]; i++) {
        size_t from = steps[i - 1];
        size_t to = steps[i];
        blocks[0] = ps_region_realloc(region, blocks[0], from, to);
        blocks[1] = ps_stack_realloc(stack, blocks[1], from, to);
        blocks[2] = ps_fifo_realloc(fifo, blocks[2], from, to);
        blocks[3] = ps_ring_realloc(ring, blocks[3], from, to);
        for (size_t f = 0; f < 4; f++) {
            memset(blocks[f], 7, to);
            families[f].check(pools[f]);
            CHECK_ABORTS(break_and_check(&families[f], pools[f], blocks[f], (ptrdiff_t)to, 1),
                         behind(blocks[f], to, 1, families[f].name));
            if (i >= 2) {
                REQUIRE(families[f].alloc(pools[f], 16, 16) != NULL);
            }
        }
    }
    for (size_t f = 0; f < 4; f++) {
        families[f].end(pools[f]);
    }
}

static void break_and_free_region(struct ps_region *region, char *block, size_t bytes) {
    write_over(block, (ptrdiff_t)bytes, 1);
    ps_region_free(region, block, bytes, 16);
}

static void break_and_grow_region(struct ps_region *region, char *block) {
    write_over(block, -1, 1);
    (void)!ps_region_realloc(region, block, 10, 20);
}

DEBUG_TEST(a_free_or_resize_of_a_block_looks_at_it, "check") {
    struct ps_region *region = ps_region_create(NULL);
    char *large = ps_region_alloc(region, 500000);
    char *small = ps_region_alloc(region, 10);
    CHECK_ABORTS(break_and_free_region(region, small, 10), behind(small, 10, 1, "region"));
    CHECK_ABORTS(break_and_free_region(region, large, 500000), behind(large, 500000, 1, "region"));
    CHECK_ABORTS(break_and_grow_region(region, small), in_front(small, 10, 1, "region"));
    CHECK_ABORTS(ps_region_free(region, small, 11, 16), "another size than its own");
    CHECK_ABORTS(ps_region_free(region, small + 1, 9, 16), "but no block");
    ps_region_destroy(region);

    struct ps_stack *stack = ps_stack_create(NULL);
    char *block = ps_stack_alloc(stack, 10);
    CHECK_ABORTS((write_over(block, 10, 1), ps_stack_free_last(stack, block, 10)),
                 behind(block, 10, 1, "stack"));
    CHECK_ABORTS((write_over(block, 10, 1), ps_stack_realloc(stack, block, 10, 12)),
                 behind(block, 10, 1, "stack"));
    CHECK_ABORTS(ps_stack_realloc(stack, block, 11, 12), "realloc with a wrong old size of");
    ps_stack_destroy(stack);

    struct ps_fifo *fifo = ps_fifo_create(NULL);
    block = ps_fifo_alloc(fifo, 10);
    CHECK_ABORTS((write_over(block, 10, 1), ps_fifo_free(fifo, block)),
                 behind(block, 10, 1, "fifo"));
    CHECK_ABORTS((write_over(block, -1, 1), ps_fifo_free(fifo, block)),
                 in_front(block, 10, 1, "fifo"));
    CHECK_ABORTS((write_over(block, -48, 48), ps_fifo_free(fifo, block)), "over its record");
    ps_fifo_destroy_now(fifo);

    for (size_t s = 0; s < SIZES; s++) {
        block = ps_slice_alloc(sizes[s]);
        REQUIRE(block != NULL);
        CHECK_ABORTS((write_over(block, (ptrdiff_t)sizes[s], 1), ps_slice_free(sizes[s], block)),
                     behind(block, sizes[s], 1, "slices"));
        ps_slice_free(sizes[s], block);
    }
}

/* Frames of a stack: each pop looks at its own blocks; a check at those of all frames, in all
 * chunks. */
DEBUG_TEST(frames_of_a_stack_are_looked_at_one_by_one, "check") {
    enum { DEPTH = 40 };
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_frame *frames[DEPTH];
    char *blocks[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        frames[i] = ps_stack_push(stack);
        blocks[i] = ps_stack_alloc(stack, 5000);
        if (i % 3 == 0) {
            (void)!ps_stack_alloc_aligned(stack, 100, 1024);
        }
        if (i % 5 == 0) {
            (void)!ps_stack_alloc(stack, 300000);
        }
    }
    ps_stack_check(stack);
    for (int i = 0; i < DEPTH; i += 3) {
        struct ps_stack_mark mark = ps_stack_mark(stack);
        CHECK_ABORTS((write_over(blocks[i], 5000, 1), ps_stack_check(stack)),
                     behind(blocks[i], 5000, 1, "stack"));
        CHECK_ABORTS((write_over(blocks[i], -2, 2), ps_stack_destroy(stack)),
                     in_front(blocks[i], 5000, 2, "stack"));
        ps_stack_rewind(stack, mark);
    }
    for (int i = DEPTH; i-- > 0;) {
        CHECK_ABORTS((write_over(blocks[i], 5000, 1), ps_stack_pop(stack, frames[i])),
                     behind(blocks[i], 5000, 1, "stack"));
        ps_stack_pop(stack, frames[i]);
    }
    ps_stack_destroy(stack);
}

DEBUG_TEST(a_rewind_looks_at_the_blocks_and_finds_an_expired_mark, "check") {
    struct ps_stack *stack = ps_stack_create(NULL);
    struct ps_stack_mark low = ps_stack_mark(stack);
    char *block = ps_stack_alloc(stack, 24);
    (void)!ps_stack_alloc(stack, 24);
    struct ps_stack_mark high = ps_stack_mark(stack);
    (void)!ps_stack_alloc(stack, 24);
    CHECK_ABORTS((write_over(block, 24, 1), ps_stack_rewind(stack, low)),
                 behind(block, 24, 1, "stack"));
    ps_stack_rewind(stack, high);
    ps_stack_rewind(stack, low);
    (void)!ps_stack_alloc(stack, 1000);
    CHECK_ABORTS(ps_stack_rewind(stack, high), "rewind to an expired mark");
    ps_stack_rewind(stack, low);
    ps_stack_destroy(stack);
}

DEBUG_TEST(a_scope_of_a_thread_s_stack_looks_at_its_blocks, "check") {
    PS_SCOPE;
    char *text = ps_t_printf("%d", 12345);
    CHECK_STR_EQ(text, "12345");
    struct ps_stack_frame *inner = ps_t_push();
    char *other = ps_t_strdup("text");
    CHECK_ABORTS((write_over(other, 5, 1), ps_t_pop(inner)),
                 behind(other, 5, 1, "stack \"thread's stack\""));
    ps_t_pop(inner);
    CHECK_ABORTS((write_over(text, 6, 1), ps_stack_check(ps_t())), "behind the end of");
}

DEBUG_TEST(regions_of_rounds_and_children_are_looked_at, "check") {
    struct ps_frames *rounds = ps_frames_create(2, NULL);
    char *old = ps_region_alloc(ps_frames_current(rounds), 30);
    ps_frames_next(rounds);
    CHECK_ABORTS((write_over(old, 30, 1), ps_frames_next(rounds)), behind(old, 30, 1, "region"));
    ps_frames_destroy(rounds);

    struct ps_region *parent = ps_region_create(NULL);
    struct ps_region *child = ps_region_create_child(parent, NULL);
    char *text = ps_region_strdup(child, "child");
    CHECK_ABORTS((write_over(text, 6, 1), ps_region_destroy(parent)), behind(text, 6, 1, "region"));
    CHECK_ABORTS((write_over(text, 6, 1), ps_region_check(child)), behind(text, 6, 1, "region"));
    ps_region_check(parent);
    ps_region_destroy(parent);
}

DEBUG_TEST(a_frame_of_a_ring_is_looked_at_in_all_its_chunks, "check") {
    struct ps_ring *ring = ps_ring_create(NULL);
    struct ps_ring_frame *sealed = ps_ring_begin(ring);
    char *first = ps_ring_alloc(ring, 1000);
    for (int i = 0; i < 1000; i++) {
        REQUIRE(ps_ring_alloc(ring, 1000) != NULL);
    }
    char *huge = ps_ring_alloc(ring, 3000000);
    struct ps_ring_checkpoint checkpoint = ps_ring_checkpoint(ring);
    CHECK_ABORTS((write_over(first, 1000, 1), ps_ring_release(sealed)),
                 behind(first, 1000, 1, "ring"));
    CHECK_ABORTS((write_over(huge, 3000000, 1), ps_ring_release(sealed)),
                 behind(huge, 3000000, 1, "ring"));
    ps_ring_rewind(ring, &checkpoint);
    char *last = ps_ring_alloc(ring, 10);
    CHECK_ABORTS((write_over(last, 10, 1), ps_ring_rewind(ring, &checkpoint)),
                 behind(last, 10, 1, "ring"));
    CHECK_ABORTS((write_over(last, 10, 1), ps_ring_check(ring)), behind(last, 10, 1, "ring"));
    ps_ring_seal(ring);
    ps_ring_release(sealed);
    ps_ring_destroy(ring);
}

TEST(without_checks_blocks_have_nothing_between_them) {
    struct ps_region *region = ps_region_create(NULL);
    struct ps_stack *stack = ps_stack_create(NULL);
    char *one = ps_region_alloc(region, 16);
    char *two = ps_stack_alloc(stack, 16);
    if (!has_canaries() && !is_malloc_mode()) {
        CHECK_PTR_EQ(ps_region_alloc(region, 16), one + 16);
        CHECK_PTR_EQ(ps_stack_alloc(stack, 16), two + 16);
    }
    ps_region_check(region);
    ps_stack_check(stack);
    ps_stack_check(ps_t());
    ps_region_destroy(region);
    ps_stack_destroy(stack);
}

UNIT_MAIN
