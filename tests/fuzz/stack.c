// links: pools
// sources: tests/fuzz/lib/mode.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a stack as a sequence of operations: frames, marks, blocks of every alignment,
 * growth, unwinding. Every byte of every block is patterned; what a frame or a mark covers ends
 * with it, and nothing else does.
 */
#include "tests/fuzz/lib/account.h"
#include "tests/fuzz/lib/mode.h"
#include "tests/fuzz/lib/model.h"

#include <poolshim/stack.h>

enum { BLOCKS = 256, FRAMES = 24, POWERS = 10 };

static struct model_block blocks[BLOCKS]; /* in the order they were made */
static size_t block_count;
static struct {
    struct ps_stack_frame *frame;
    size_t block_count; /* when it was opened */
} frames[FRAMES];
static size_t frame_count;
static struct ps_stack_mark mark;
static size_t mark_blocks;
static bool has_mark;
static struct account account;
static struct ps_stack *stack;
static struct fuzz_input input;

static size_t frame_floor(void) {
    return frame_count == 0 ? 0 : frames[frame_count - 1].block_count;
}

/* Blocks from `count` on have ended; they were whole until then. */
static void drop_blocks(size_t count) {
    for (size_t i = count; i < block_count; i++) {
        model_check(&blocks[i], blocks[i].bytes);
        blocks[i].address = NULL;
    }
    block_count = count < block_count ? count : block_count;
    has_mark = has_mark && mark_blocks <= block_count;
}

static void make(size_t align) {
    size_t bytes = fuzz_size(&input, POWERS);
    if (block_count == BLOCKS) {
        return;
    }
    errno = 0;
    void *address = ps_stack_alloc_aligned(stack, bytes, align);
    FUZZ_CHECK(address != NULL || errno == ENOMEM);
    if (address != NULL) {
        model_start(blocks, block_count, &blocks[block_count], address, bytes, align);
        block_count++;
        FUZZ_CHECK(bytes == 0 || ps_stack_owns(stack, address));
    }
}

/* Resizes any block of the innermost frame: the newest in place, others by a new block. */
static void resize(void) {
    size_t floor = frame_floor();
    size_t bytes = fuzz_size(&input, POWERS);
    uint8_t from_top = fuzz_byte(&input) % 4;
    if (block_count < floor + 1 + from_top) {
        return;
    }
    struct model_block *block = &blocks[block_count - 1 - from_top];
    unsigned char *address =
        ps_stack_realloc_aligned(stack, block->address, block->bytes, bytes, block->align);
    if (address == NULL) {
        model_check(block, block->bytes);
        return;
    }
    bool is_moved = address != block->address;
    size_t index = block_count - 1 - from_top;
    block->address = address;
    model_check(block, bytes);
    model_start(blocks, block_count, block, address, bytes, block->align);
    has_mark = has_mark && index >= mark_blocks; /* it may end before the mark now */
    if (is_moved && from_top > 0) {              /* it is the newest now */
        struct model_block moved = *block;
        memmove(block, block + 1, from_top * sizeof *block);
        blocks[block_count - 1] = moved;
    }
}

static void free_last(void) {
    if (block_count > frame_floor() && (!has_mark || mark_blocks < block_count)) {
        struct model_block *block = &blocks[block_count - 1];
        model_check(block, block->bytes);
        ps_stack_free_last(stack, block->address, block->bytes);
        block->address = NULL;
        block_count--;
    }
}

static void push(void) {
    struct ps_stack_frame *frame = frame_count < FRAMES ? ps_stack_push(stack) : NULL;
    if (frame != NULL) {
        frames[frame_count].frame = frame;
        frames[frame_count].block_count = block_count;
        frame_count++;
        has_mark = false;
    }
}

static void pop(void) {
    if (frame_count > 0) {
        frame_count--;
        drop_blocks(frames[frame_count].block_count);
        FUZZ_CHECK(ps_stack_is_innermost(stack, frames[frame_count].frame));
        ps_stack_pop(stack, frames[frame_count].frame);
        has_mark = false;
    }
}

static void unwind(void) {
    if (frame_count > 0) {
        frame_count = fuzz_below(&input, (uint32_t)frame_count);
        drop_blocks(frames[frame_count].block_count);
        ps_stack_unwind(stack, frames[frame_count].frame);
        has_mark = false;
    }
}

static void mark_or_rewind(void) {
    if (has_mark) {
        drop_blocks(mark_blocks);
        ps_stack_rewind(stack, mark);
    }
    mark = ps_stack_mark(stack);
    mark_blocks = block_count;
    has_mark = fuzz_byte(&input) % 2 == 0;
}

static void reset(void) {
    drop_blocks(0);
    ps_stack_reset(stack);
    frame_count = 0;
    has_mark = false;
}

static void step(void) {
    switch (fuzz_below(&input, 20)) {
    case 0 ... 4:
        make((size_t)1 << fuzz_below(&input, 5));
        break;
    case 5:
        make((size_t)1 << fuzz_below(&input, 14));
        break;
    case 6 ... 8:
        resize();
        break;
    case 9 ... 10:
        free_last();
        break;
    case 11 ... 12:
        push();
        break;
    case 13 ... 14:
        pop();
        break;
    case 15:
        unwind();
        break;
    case 16:
        mark_or_rewind();
        break;
    case 17:
        account.refuse_after = fuzz_below(&input, 4);
        break;
    case 18:
        ps_stack_trim_to(stack, (size_t)fuzz_byte(&input) << 10);
        break;
    default:
        if (fuzz_byte(&input) == 0) {
            reset();
        }
        model_check_all(blocks, block_count);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    input = (struct fuzz_input){bytes, count};
    mode_choose(&input);
    account_start(&account);
    block_count = 0;
    frame_count = 0;
    has_mark = false;
    uint8_t kind = fuzz_byte(&input);
    struct ps_stack_options options = {
        .chunks = {.source = &account.source,
                   .first_bytes = (kind & 1) != 0 ? 1024 : 0,
                   .max_bytes = (kind & 2) != 0 ? 8192 : 0},
        .retain_bytes = (kind & 4) != 0 ? 1 : 0,
    };
    stack = ps_stack_create(&options);
    FUZZ_CHECK(stack != NULL);
    while (!fuzz_is_over(&input)) {
        step();
    }
    drop_blocks(0);
    ps_stack_destroy(stack);
    account_check_empty(&account);
    return 0;
}
