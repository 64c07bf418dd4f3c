/* SPDX-License-Identifier: MIT */
/*
 * PS_DEBUG=malloc: every block and every frame record of a stack is a malloc block of its own, so
 * that ordinary tools see each of them. Callers: stack.c, edit.c. One thread at a time per stack.
 *
 * The blocks of a stack are a list, newest first. A frame record and a mark contain the block that
 * was newest, where a stack of chunks has its top.
 */
#include "pools/stack/stack.h"

#include "pools/common/debug.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Directly in front of what the program gets. */
struct ps_stack_single {
    struct ps_stack_single *older;
    struct ps_stack_single *newer;
    const struct ps_stack_frame *frame;
    void *base; /* what malloc gave */
    size_t bytes;
    size_t reserved;
};

_Static_assert(sizeof(struct ps_stack_single) % 16 == 0, "the block after it is aligned to 16");

static struct ps_stack_single *single_of(void *block) {
    return (struct ps_stack_single *)block - 1;
}

static void *take(struct ps_chunks *chunks, size_t bytes, size_t align) {
    void *base = NULL;
    while (posix_memalign(&base, align, bytes) != 0) { /* ends when the handler gives up */
        if (chunks->oom == NULL || chunks->oom(chunks->oom_context, bytes) == 0) {
            errno = ENOMEM;
            return NULL;
        }
    }
    return base;
}

void *ps_stack_single_alloc(struct ps_stack *stack, size_t bytes, size_t align) {
    struct ps_stack_body *body = stack->body;
    align = ps_max(align, PS_ALIGN_DEFAULT);
    size_t head = ps_round_up(sizeof(struct ps_stack_single), align);
    if (bytes > PTRDIFF_MAX || head > PTRDIFF_MAX || head > PTRDIFF_MAX - bytes) {
        errno = ENOMEM;
        return NULL;
    }
    const struct ps_stack_frame *frame = stack->frame;
    ps_stack_close(stack); /* the oom handler may jump out of here */
    char *base = take(&body->chunks, head + bytes, align);
    ps_stack_enter(stack);
    if (base == NULL) {
        return NULL;
    }
    struct ps_stack_single *single = single_of(base + head);
    *single = (struct ps_stack_single){body->newest, NULL, frame, base, bytes, 0};
    if (body->newest != NULL) {
        body->newest->newer = single;
    }
    body->newest = single;
    return base + head;
}

static void unlink_and_free(struct ps_stack_body *body, struct ps_stack_single *single) {
    if (single->older != NULL) {
        single->older->newer = single->newer;
    }
    if (single->newer != NULL) {
        single->newer->older = single->older;
    } else {
        body->newest = single->older;
    }
    free(single->base);
}

void *ps_stack_single_realloc(struct ps_stack *stack, void *block, size_t old_bytes,
                              size_t new_bytes, size_t align) {
    struct ps_stack_single *single = single_of(block);
    if (single->frame != stack->frame) {
        ps_debug_misuse("realloc of a block of another frame", block, stack->body->chunks.name);
    }
    if (single->bytes != old_bytes) {
        ps_debug_misuse("realloc with a wrong old size of", block, stack->body->chunks.name);
    }
    void *moved = ps_stack_single_alloc(stack, new_bytes, align);
    if (moved != NULL) {
        memcpy(moved, block, ps_min(old_bytes, new_bytes));
        unlink_and_free(stack->body, single);
    }
    return moved;
}

bool ps_stack_single_free_last(struct ps_stack *stack, void *block) {
    struct ps_stack_body *body = stack->body;
    bool is_last = body->newest != NULL && (void *)(body->newest + 1) == block &&
                   body->newest->frame == stack->frame;
    if (is_last) {
        unlink_and_free(body, body->newest);
    }
    return is_last;
}

struct ps_stack_frame *ps_stack_single_push(struct ps_stack *stack) {
    struct ps_stack_body *body = stack->body;
    ps_stack_close(stack); /* the oom handler may jump out of here */
    struct ps_stack_frame *frame = take(&body->chunks, sizeof *frame, PS_ALIGN_DEFAULT);
    ps_stack_enter(stack);
    if (frame != NULL) {
        *frame = (struct ps_stack_frame){stack->frame, (char *)body->newest, NULL, 0};
        stack->frame = frame;
    }
    return frame;
}

void ps_stack_single_go_back(struct ps_stack *stack, const void *oldest_kept) {
    struct ps_stack_body *body = stack->body;
    while (body->newest != NULL && body->newest != oldest_kept) { /* each block once */
        unlink_and_free(body, body->newest);
    }
}

void ps_stack_single_free_frame(struct ps_stack_frame *frame) { free(frame); }

bool ps_stack_single_has(const struct ps_stack *stack, const struct ps_stack_single *single) {
    const struct ps_stack_single *at = stack->body->newest;
    while (at != NULL && at != single) { /* the list is finite */
        at = at->older;
    }
    return at != NULL;
}

bool ps_stack_single_owns(const struct ps_stack *stack, const void *address) {
    const struct ps_stack_single *at = stack->body->newest;
    while (at != NULL && (uintptr_t)address - (uintptr_t)(at + 1) >= ps_max(at->bytes, 1)) {
        at = at->older; /* the list is finite */
    }
    return at != NULL;
}

int ps_stack_single_order(const struct ps_stack *stack, const void *a, const void *b) {
    const struct ps_stack_single *at = stack->body->newest;
    while (at != NULL && at != a && at != b) { /* the list is finite */
        at = at->older;
    }
    return at == NULL || a == b ? 0 : at == a ? 1 : -1;
}

size_t ps_stack_single_bytes(const struct ps_stack *stack) {
    size_t bytes = 0;
    for (const struct ps_stack_single *at = stack->body->newest; at != NULL; at = at->older) {
        bytes += at->bytes;
    }
    return bytes;
}
