/* SPDX-License-Identifier: MIT */
/*
 * Mode check of stacks: blocks with canaries. Callers: the other files of the stack. Calls
 * pools/common/canary.h. One thread at a time per stack.
 *
 * Each chunk has, from its start, frame records and the records of canary.h, each a multiple of 16
 * bytes, in the order in which they were made. The blocks of a frame lie between its record, or the
 * start of a chunk, and the record of the next frame, or the top of the chunk.
 */
#include "pools/stack/stack.h"

#include "pools/common/debug.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct ps_stack_frame) % 16 == 0, "records follow it");

static struct ps_canary_pool pool_of(const struct ps_stack *stack) {
    const struct ps_chunks *chunks = &stack->body->chunks;
    return (struct ps_canary_pool){chunks->family, chunks->name};
}

const char *ps_stack_first_block(const struct ps_stack *stack, const struct ps_stack_frame *frame) {
    return frame == &stack->body->base ? frame->top : (const char *)(frame + 1);
}

/* The blocks of one frame from `from` on; `top` is where they end, in `chunk`. Returns the chunk of
 * `from`. */
static const struct ps_stack_chunk *verify_frame(const struct ps_stack *stack,
                                                 const struct ps_stack_chunk *chunk,
                                                 const char *top, const char *from) {
    const char *start = ps_stack_chunk_start(stack->body, chunk);
    while (from < start || from > top) { /* ends: `from` is in this chunk or one before */
        ps_canary_verify_range(start, top, pool_of(stack));
        chunk = chunk->previous;
        start = ps_stack_chunk_start(stack->body, chunk);
        top = chunk->top;
    }
    ps_canary_verify_range(from, top, pool_of(stack));
    return chunk;
}

void ps_stack_verify(struct ps_stack *stack, const char *from) {
    if (stack->body->mode == PS_STACK_CHECK) {
        (void)verify_frame(stack, ps_stack_current(stack), stack->top, from);
    }
}

/* Frame by frame, from the innermost. */
static void verify_all(struct ps_stack *stack) {
    const struct ps_stack_frame *frame = ps_stack_frame_of(stack->frame);
    const struct ps_stack_chunk *chunk = ps_stack_current(stack);
    const char *top = stack->top;
    for (;;) { /* ends: the base is below all */
        chunk = verify_frame(stack, chunk, top, ps_stack_first_block(stack, frame));
        if (frame == &stack->body->base) {
            return;
        }
        top = frame->top;
        while (chunk->end != frame->end) { /* ends: the frame was opened in this chunk or before */
            chunk = chunk->previous;
        }
        frame = ps_stack_frame_of(frame->previous);
    }
}

void ps_stack_check(struct ps_stack *stack) {
    if (stack->body != NULL && stack->body->mode == PS_STACK_CHECK) {
        ps_stack_enter(stack);
        verify_all(stack);
        ps_stack_leave(stack);
    }
}

bool ps_stack_checked_has_place(struct ps_stack *stack, const struct ps_stack_mark *mark) {
    const struct ps_stack_chunk *chunk = ps_stack_current(stack);
    while (chunk != NULL && chunk->end != mark->end) { /* ends: a list */
        chunk = chunk->previous;
    }
    if (chunk == NULL) {
        return false;
    }
    const char *from = ps_stack_first_block(stack, ps_stack_frame_of(stack->frame));
    const char *start = ps_stack_chunk_start(stack->body, chunk);
    bool is_frame_inside = from >= start && from <= chunk->end;
    return ps_canary_is_between(is_frame_inside ? from : start, mark->top);
}

void *ps_stack_checked_alloc(struct ps_stack *stack, size_t bytes, size_t align, size_t wanted) {
    void *block = ps_canary_cut(&stack->top, stack->end, bytes, align);
    if (block != NULL) {
        return block;
    }
    size_t need;
    if (!ps_canary_need(bytes, align, &need)) {
        errno = ENOMEM;
        return NULL;
    }
    bool is_growing = wanted > bytes && wanted - bytes <= PTRDIFF_MAX - need;
    size_t more = is_growing ? wanted - bytes : 0;
    if (!ps_stack_next_chunk(stack, need, PS_ALIGN_DEFAULT, need + more)) {
        return NULL;
    }
    return ps_canary_cut(&stack->top, stack->end, bytes, align);
}

/* Aborts when no block of the stack begins here, or a canary of it has changed. */
static void check_block(struct ps_stack *stack, const void *block) {
    if (!ps_canary_is_block(block)) {
        verify_all(stack); /* a write in front of the block has its own line */
        ps_debug_misuse("freed or resized, but no block:", block, stack->body->chunks.name);
    }
    ps_canary_verify(block, pool_of(stack));
}

/* The newest block of the stack, up to the end of its chunk. NULL: it must move. */
static void *resize_newest(struct ps_stack *stack, char *block, size_t new_bytes) {
    char *old_end = stack->top;
    if (new_bytes > (size_t)(stack->end - block) ||
        ps_canary_end_for(block, new_bytes) > stack->end) {
        return NULL;
    }
    char *new_end = ps_canary_end_for(block, new_bytes);
    ps_canary_resize(block, new_bytes, new_end);
    if (new_end < old_end) {
        ps_stack_go_back(stack, new_end, stack->end);
    } else {
        stack->top = new_end;
    }
    return block;
}

static void *resize_in_place(struct ps_stack *stack, char *block, size_t old_bytes,
                             size_t new_bytes) {
    char *end = ps_canary_end(block);
    if (end == stack->top) {
        return resize_newest(stack, block, new_bytes);
    }
    if (new_bytes > old_bytes) {
        return NULL;
    }
    ps_canary_resize(block, new_bytes, end);
    return block;
}

void *ps_stack_checked_realloc(struct ps_stack *stack, void *block, size_t old_bytes,
                               size_t new_bytes, size_t align) {
    if (!ps_stack_is_of_frame(stack, block)) {
        ps_debug_misuse("realloc of a block of another frame", block, stack->body->chunks.name);
    }
    check_block(stack, block);
    if (ps_canary_bytes(block) != old_bytes) {
        ps_debug_misuse("realloc with a wrong old size of", block, stack->body->chunks.name);
    }
    bool is_aligned = ((uintptr_t)block & (align - 1)) == 0;
    void *result = is_aligned ? resize_in_place(stack, block, old_bytes, new_bytes) : NULL;
    if (result != NULL) {
        return result;
    }
    char *moved = ps_stack_alloc_open(stack, new_bytes, align,
                                      ps_stack_with_room_to_grow(old_bytes, new_bytes));
    if (moved != NULL) {
        memcpy(moved, block, ps_min(old_bytes, new_bytes));
        ps_poison(block, old_bytes);
    }
    return moved;
}

bool ps_stack_checked_free_last(struct ps_stack *stack, void *block, size_t bytes) {
    if (!ps_stack_is_of_frame(stack, block)) {
        return false;
    }
    check_block(stack, block);
    bool is_last = ps_canary_end(block) == stack->top &&
                   ps_stack_rounded(ps_canary_bytes(block)) == ps_stack_rounded(bytes);
    if (is_last) {
        ps_stack_go_back(stack, ps_canary_start(block), stack->end);
    }
    return is_last;
}
