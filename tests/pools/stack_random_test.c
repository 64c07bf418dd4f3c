/* SPDX-License-Identifier: MIT */
/*
 * Stack against a trivial model: random calls on stacks with small chunks; the pattern of every
 * live block is intact, none overlaps another, pop and rewind free exactly what the model says.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/respawn.h"
#include "tests/pools/small_stack.h"

#define BLOCKS_MAX 4000
#define FRAMES_MAX 60

struct block {
    unsigned char *at;
    size_t bytes;
    unsigned char pattern;
};

struct model {
    struct ps_stack *stack;
    struct block blocks[BLOCKS_MAX];
    size_t block_count;
    struct ps_stack_frame *frames[FRAMES_MAX];
    size_t frame_starts[FRAMES_MAX]; /* block_count at push */
    size_t frame_count;
    struct ps_stack_mark mark; /* of the innermost frame */
    size_t mark_start;
    bool has_mark;
};

static size_t random_bytes(void) {
    uint64_t random = unit_random();
    switch (random % 16) {
    case 0:
        return 0;
    case 1:
        return random / 16 % 20000;
    case 2:
    case 3:
        return random / 16 % 2000;
    default:
        return random / 16 % 100;
    }
}

static bool is_whole(const struct block *block) {
    for (size_t i = 0; i < block->bytes; i++) {
        if (block->at[i] != block->pattern) {
            return false;
        }
    }
    return true;
}

static void check_blocks(struct model *model, size_t start) {
    for (size_t i = start; i < model->block_count; i++) {
        REQUIRE(is_whole(&model->blocks[i]));
        REQUIRE(ps_stack_owns(model->stack, model->blocks[i].at));
    }
}

static void add_block(struct model *model, void *at, size_t bytes, size_t align) {
    REQUIRE(at != NULL && (uintptr_t)at % align == 0);
    struct block *block = &model->blocks[model->block_count++];
    *block = (struct block){at, bytes, (unsigned char)unit_random()};
    memset(at, block->pattern, bytes);
}

static size_t innermost_start(const struct model *model) {
    return model->frame_count > 0 ? model->frame_starts[model->frame_count - 1] : 0;
}

static void do_alloc(struct model *model) {
    size_t bytes = random_bytes();
    size_t align = (size_t)1 << unit_random() % 9;
    add_block(model, ps_stack_alloc_aligned(model->stack, bytes, align), bytes, align);
}

/* Resizes the newest block in half of the cases. */
static void do_realloc(struct model *model) {
    size_t start = innermost_start(model);
    if (model->block_count == start || model->has_mark) {
        return;
    }
    size_t count = model->block_count - start;
    size_t index = start + (unit_random() % 2 ? count - 1 : unit_random() % count);
    struct block *block = &model->blocks[index];
    size_t bytes = random_bytes();
    unsigned char *at = ps_stack_realloc(model->stack, block->at, block->bytes, bytes);
    REQUIRE(at != NULL && (uintptr_t)at % 16 == 0);
    struct block kept = {at, block->bytes < bytes ? block->bytes : bytes, block->pattern};
    REQUIRE(is_whole(&kept));
    *block = (struct block){at, bytes, block->pattern};
    memset(at, block->pattern, bytes);
}

static void do_free_last(struct model *model) {
    if (model->block_count > innermost_start(model) && !model->has_mark) {
        struct block *block = &model->blocks[model->block_count - 1];
        if (ps_stack_free_last(model->stack, block->at, block->bytes)) {
            model->block_count--;
        }
    }
}

static void do_push(struct model *model) {
    if (model->frame_count < FRAMES_MAX) {
        model->frame_starts[model->frame_count] = model->block_count;
        model->frames[model->frame_count] = ps_stack_push(model->stack);
        REQUIRE(model->frames[model->frame_count++] != NULL);
        model->has_mark = false;
    }
}

static void do_pop(struct model *model) {
    if (model->frame_count == 0) {
        return;
    }
    size_t closed = unit_random() % 8 == 0 ? 1 + unit_random() % model->frame_count : 1;
    check_blocks(model, model->frame_starts[model->frame_count - 1]);
    model->frame_count -= closed;
    if (closed == 1) {
        ps_stack_pop(model->stack, model->frames[model->frame_count]);
    } else {
        ps_stack_unwind(model->stack, model->frames[model->frame_count]);
    }
    model->block_count = model->frame_starts[model->frame_count];
    model->has_mark = false;
}

static void do_mark(struct model *model) {
    if (model->has_mark) {
        ps_stack_rewind(model->stack, model->mark);
        model->block_count = model->mark_start;
        model->has_mark = unit_random() % 2 == 0;
    } else {
        model->mark = ps_stack_mark(model->stack);
        model->mark_start = model->block_count;
        model->has_mark = true;
    }
}

static void do_rare(struct model *model) {
    if (unit_random() % 20 == 0) {
        ps_stack_reset(model->stack);
        model->block_count = model->frame_count = 0;
        model->has_mark = false;
    }
    ps_stack_trim_to(model->stack, unit_random() % 100000);
}

static void step(struct model *model) {
    uint64_t choice = unit_random() % 100;
    if (model->block_count >= BLOCKS_MAX - 1 || choice >= 85) {
        do_pop(model);
        if (model->frame_count == 0 && model->block_count > BLOCKS_MAX / 2) {
            ps_stack_reset(model->stack);
            model->block_count = 0;
            model->has_mark = false;
        }
    } else if (choice < 45) {
        do_alloc(model);
    } else if (choice < 55) {
        do_realloc(model);
    } else if (choice < 60) {
        do_free_last(model);
    } else if (choice < 77) {
        do_push(model);
    } else if (choice < 83) {
        do_mark(model);
    } else {
        do_rare(model);
    }
}

static void compare(size_t first_bytes, size_t max_bytes, size_t retain_bytes, int steps) {
    static struct model model;
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_stack_options options = {
        .chunks = {.source = &source.source, .first_bytes = first_bytes, .max_bytes = max_bytes},
        .retain_bytes = retain_bytes,
        .trim_ms = 1,
    };
    model = (struct model){.stack = ps_stack_create(&options)};
    REQUIRE(model.stack != NULL);
    for (int i = 0; i < steps; i++) {
        step(&model);
        if (i % 500 == 0) {
            check_blocks(&model, 0);
        }
    }
    struct ps_stack_stats stats;
    ps_stack_stats(model.stack, &stats);
    CHECK_EQ(stats.held_bytes, source.live_bytes);
    CHECK_EQ(stats.frame_count, model.frame_count);
    ps_stack_destroy(model.stack);
    CHECK_EQ(source.live_bytes, 0);
    CHECK_EQ(source.live_count, 0);
}

FRESH_TEST(random_calls_match_the_model_with_tiny_chunks) { compare(1024, 1024, 1, 20000); }
FRESH_TEST(random_calls_match_the_model_with_growing_chunks) { compare(1024, 65536, 1, 20000); }
FRESH_TEST(random_calls_match_the_model_with_retained_chunks) { compare(4096, 65536, 0, 20000); }

DEBUG_TEST(random_calls_match_the_model_with_checks, "check") { compare(1024, 16384, 1, 5000); }
DEBUG_TEST(random_calls_match_the_model_on_malloc, "malloc") { compare(1024, 16384, 1, 5000); }

UNIT_MAIN
