/* SPDX-License-Identifier: MIT */
/*
 * See poolshim/stack.h: creation, and the out-of-line halves of alloc, push, pop, mark and rewind.
 * Calls chunks.c, single.c and thread.c. One thread at a time per stack, no locks.
 */
#include "pools/stack/stack.h"

#include "pools/common/debug.h"
#include "pools/common/registry.h"

#include <errno.h>

enum { FIRST_BYTES = 64 << 10, MAX_BYTES = 32 << 20 };

static enum ps_stack_mode mode_now(void) {
    if (ps_debug_is_malloc()) {
        return PS_STACK_MALLOC;
    }
    return ps_debug_is_check() || ps_poison_is_on ? PS_STACK_CHECK : PS_STACK_FAST;
}

struct ps_stack_body *ps_stack_create_body(const struct ps_stack_options *options) {
    static const struct ps_stack_options none;
    if (options == NULL) {
        options = &none;
    }
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options->chunks, "stack", FIRST_BYTES, MAX_BYTES);
    size_t bytes;
    struct ps_stack_chunk *first = ps_chunk_take(
        &chunks, sizeof(struct ps_stack_chunk) + sizeof(struct ps_stack_body), 16, &bytes);
    if (first == NULL) {
        return NULL;
    }
    struct ps_stack_body *body = (struct ps_stack_body *)(first + 1);
    *first = (struct ps_stack_chunk){
        .end = (char *)first + ps_round_down(bytes, 16),
        .bytes = bytes,
    };
    *body = (struct ps_stack_body){
        .chunks = chunks,
        .first = first,
        .current = first,
        .mode = mode_now(),
        .owner = pthread_self(),
        .retain_bytes = options->retain_bytes != 0 ? options->retain_bytes : PS_STACK_RETAIN_BYTES,
        .trim_ms = options->trim_ms != 0 ? options->trim_ms : PS_STACK_TRIM_MS,
    };
    body->base.top = (char *)(body + 1);
    body->base.end = first->end;
    if (body->mode != PS_STACK_FAST) {
        ps_poison(body->base.top, (size_t)(first->end - body->base.top));
    }
    return body;
}

void ps_stack_empty(struct ps_stack *stack, struct ps_stack_body *body) {
    *stack = (struct ps_stack){body->base.top, body->base.end, &body->base, body};
    body->current = body->first;
    body->base.is_sealed = 0;
}

/* Blocks of stacks are freed with them: only a stack that remains is a leak. */
static const struct ps_family family = {.name = "stack", .must_end = true};

struct ps_stack *ps_stack_create(const struct ps_stack_options *options) {
    struct ps_stack_body *body = ps_stack_create_body(options);
    if (body == NULL) {
        return NULL;
    }
    ps_stack_empty(&body->stack, body);
    ps_stack_leave(&body->stack);
    ps_registry_note_made(&body->chunks, &body->stack, &family);
    return &body->stack;
}

bool ps_stack_enlist(struct ps_stack *stack) {
    return (stack->body != NULL || ps_stack_create_of_thread(stack)) &&
           ps_registry_enter(&stack->body->chunks, stack, &family);
}

/* The blocks that are malloc's go one by one, the chunks as a whole, the one with the body last. */
void ps_stack_destroy_body(struct ps_stack_body *body) {
    ps_registry_note_ended(&body->chunks);
    struct ps_chunks chunks = body->chunks;
    struct ps_stack_chunk *next;
    for (struct ps_stack_chunk *chunk = body->first; chunk != NULL; chunk = next) {
        next = chunk->next;
        ps_chunk_give(&chunks, chunk, chunk->bytes);
    }
}

void ps_stack_destroy(struct ps_stack *stack) {
    if (stack != NULL) {
        ps_stack_reset(stack);
        ps_stack_destroy_body(stack->body);
    }
}

struct ps_stack_body *ps_stack_enter(struct ps_stack *stack) {
    if (stack->body == NULL && !ps_stack_create_of_thread(stack)) {
        return NULL;
    }
    struct ps_stack_body *body = stack->body;
    if (body->mode != PS_STACK_FAST && !pthread_equal(body->owner, pthread_self())) {
        ps_debug_misuse("use by another thread of stack", stack, body->chunks.name);
    }
    if (stack->frame == PS_STACK_CLOSED) {
        stack->top = body->closed.top;
        stack->end = body->closed.end;
        stack->frame = body->closed.frame;
    }
    return body;
}

void ps_stack_close(struct ps_stack *stack) {
    if (stack->frame != PS_STACK_CLOSED) {
        stack->body->closed = *stack;
        *stack = (struct ps_stack){NULL, NULL, PS_STACK_CLOSED, stack->body};
    }
}

void ps_stack_leave(struct ps_stack *stack) {
    if (stack->body->mode != PS_STACK_FAST) {
        ps_stack_close(stack);
    }
}

static PS_COLD void check_may_alloc(const struct ps_stack *stack) {
    const struct ps_stack_body *body = stack->body;
    if (ps_stack_frame_of(stack->frame)->is_sealed) {
        ps_debug_misuse("allocation in a sealed frame of stack", stack, body->chunks.name);
    }
    if (body->is_of_thread && stack->frame == &body->base) {
        ps_debug_misuse("allocation outside of all frames of stack", stack, body->chunks.name);
    }
}

static bool has_room(const struct ps_stack *stack, size_t need, size_t align) {
    uintptr_t top = (uintptr_t)stack->top;
    uintptr_t at = ps_round_up(top, align);
    uintptr_t end = (uintptr_t)stack->end;
    return at >= top && at <= end && need <= end - at;
}

void *ps_stack_alloc_open(struct ps_stack *stack, size_t bytes, size_t align, size_t wanted) {
    if (bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (stack->body->mode != PS_STACK_FAST) {
        check_may_alloc(stack);
        return ps_stack_checked_alloc(stack, bytes, align, wanted);
    }
    size_t need = ps_stack_rounded(bytes);
    if (!has_room(stack, need, align) && !ps_stack_next_chunk(stack, need, align, wanted)) {
        return NULL;
    }
    uintptr_t top = (uintptr_t)stack->top;
    char *block = stack->top + (ps_round_up(top, align) - top);
    stack->top = block + need;
    return block;
}

void *ps_stack_alloc_any_mode(struct ps_stack *stack, size_t bytes, size_t align) {
    if (stack->body->mode != PS_STACK_MALLOC) {
        return ps_stack_alloc_open(stack, bytes, align, bytes);
    }
    check_may_alloc(stack);
    return ps_stack_single_alloc(stack, bytes, align);
}

void *ps_stack_alloc_slow(struct ps_stack *stack, size_t bytes, size_t align) {
    if (!ps_is_power_of_two(align)) {
        errno = EINVAL;
        return NULL;
    }
    if (ps_stack_enter(stack) == NULL) {
        return NULL;
    }
    void *block = ps_stack_alloc_any_mode(stack, bytes, align);
    ps_stack_leave(stack);
    return block;
}

/* A stack with more than retain_bytes has to trim itself when this frame, the outermost, is
 * closed. */
static void watch_if_large(struct ps_stack *stack, bool was_empty) {
    if (was_empty && stack->body->chunks.total_bytes > stack->body->retain_bytes) {
        ps_stack_watch_outermost(stack);
    }
}

static struct ps_stack_frame *push_open(struct ps_stack *stack) {
    size_t bytes = sizeof(struct ps_stack_frame);
    char *top = stack->top;
    char *end = stack->end;
    bool was_empty = stack->frame == &stack->body->base;
    if ((size_t)(end - top) < bytes && !ps_stack_next_chunk(stack, bytes, 8, bytes)) {
        return NULL;
    }
    if (stack->body->mode == PS_STACK_CHECK) {
        ps_unpoison(stack->top, bytes);
    }
    struct ps_stack_frame *frame = ps_stack_push(stack);
    frame->top = top; /* where the chunk that had no room ended */
    frame->end = end;
    frame->is_sealed = 0;
    watch_if_large(stack, was_empty);
    return frame;
}

struct ps_stack_frame *ps_stack_push_slow(struct ps_stack *stack) {
    struct ps_stack_body *body = ps_stack_enter(stack);
    if (body == NULL) {
        return NULL;
    }
    struct ps_stack_frame *frame =
        body->mode == PS_STACK_MALLOC ? ps_stack_single_push(stack) : push_open(stack);
    ps_stack_leave(stack);
    return frame;
}

static void close_innermost(struct ps_stack *stack) {
    struct ps_stack_frame *frame = ps_stack_frame_of(stack->frame);
    struct ps_stack_frame *previous = frame->previous;
    struct ps_stack_body *body = stack->body;
    if (body->mode == PS_STACK_MALLOC) {
        ps_stack_single_go_back(stack, frame->top);
        ps_stack_single_free_frame(frame);
        stack->frame = previous;
        return;
    }
    ps_stack_verify(stack, ps_stack_first_block(stack, frame));
    ps_stack_go_back(stack, frame->top, frame->end);
    stack->frame = previous;
    if (previous == &body->base) {
        ps_stack_check_when_empty(stack);
    }
}

void ps_stack_pop_slow(struct ps_stack *stack, struct ps_stack_frame *frame) {
    if (frame == NULL) {
        return;
    }
    if (stack->body == NULL) {
        ps_debug_misuse("unbalanced pop of frame", frame, "stack");
    }
    struct ps_stack_body *body = ps_stack_enter(stack);
    if (ps_stack_frame_of(stack->frame) != frame) {
        ps_debug_misuse("unbalanced pop of frame", frame, body->chunks.name);
    }
    close_innermost(stack);
    ps_stack_leave(stack);
}

/* First checks that the frame is open: a frame that is not must not close the others. */
void ps_stack_unwind(struct ps_stack *stack, struct ps_stack_frame *frame) {
    if (frame == NULL) {
        return;
    }
    if (stack->body == NULL) {
        ps_debug_misuse("unwinding of frame", frame, "stack");
    }
    struct ps_stack_body *body = ps_stack_enter(stack);
    struct ps_stack_frame *at = ps_stack_frame_of(stack->frame);
    while (at != frame && at != &body->base) { /* ends: the base is below all */
        at = ps_stack_frame_of(at->previous);
    }
    if (at != frame || frame == &body->base) {
        ps_debug_misuse("unwinding of frame", frame, body->chunks.name);
    }
    for (bool is_last = false; !is_last;) { /* ends: the frame was seen above */
        is_last = ps_stack_frame_of(stack->frame) == frame;
        close_innermost(stack);
    }
    ps_stack_leave(stack);
}

bool ps_stack_is_innermost(struct ps_stack *stack, const struct ps_stack_frame *frame) {
    const struct ps_stack *words = stack;
    if (stack->frame == PS_STACK_CLOSED) {
        words = stack->body != NULL ? &stack->body->closed : NULL;
    }
    return words != NULL && frame != NULL && ps_stack_frame_of(words->frame) == frame;
}

void ps_stack_mark_slow(struct ps_stack *stack, struct ps_stack_mark *mark) {
    struct ps_stack_body *body = ps_stack_enter(stack);
    if (body == NULL) {
        return; /* the mark of a stack that never was: rewind does nothing */
    }
    mark->top = body->mode == PS_STACK_MALLOC ? (char *)body->newest : stack->top;
    mark->end = stack->end;
    mark->frame = stack->frame;
    ps_stack_leave(stack);
}

/* Marks of the innermost frame, at or above top. */
static PS_COLD bool is_reachable(struct ps_stack *stack, const struct ps_stack_mark *mark) {
    if (stack->body->mode == PS_STACK_MALLOC) {
        return mark->top == NULL || ps_stack_single_has(stack, (const void *)mark->top);
    }
    if (!ps_stack_checked_has_place(stack, mark)) {
        return false;
    }
    if (mark->end == stack->end) {
        return mark->top <= stack->top;
    }
    const struct ps_stack_chunk *chunk = ps_stack_current(stack);
    while (chunk != NULL && chunk->end != mark->end) {
        chunk = chunk->previous;
    }
    return chunk != NULL;
}

void ps_stack_rewind_slow(struct ps_stack *stack, const struct ps_stack_mark *mark) {
    if (stack->body == NULL || mark->frame == PS_STACK_CLOSED) {
        return;
    }
    struct ps_stack_body *body = ps_stack_enter(stack);
    /* As numbers: gcc 14.0.1, Ubuntu 24.04's, fails to compile the same about ps_stack_frame_of. */
    if (((uintptr_t)mark->frame | 1) != ((uintptr_t)stack->frame | 1)) {
        ps_debug_misuse("rewind to a mark of another frame at", mark->top, body->chunks.name);
    }
    ps_stack_verify(stack, ps_stack_first_block(stack, ps_stack_frame_of(stack->frame)));
    if (body->mode != PS_STACK_FAST && !is_reachable(stack, mark)) {
        ps_debug_misuse("rewind to an expired mark at", mark->top, body->chunks.name);
    }
    if (body->mode == PS_STACK_MALLOC) {
        ps_stack_single_go_back(stack, mark->top);
    } else {
        ps_stack_go_back(stack, mark->top, mark->end);
    }
    ps_stack_leave(stack);
}

void ps_stack_reset(struct ps_stack *stack) {
    if (stack->body == NULL) {
        return;
    }
    struct ps_stack_body *body = ps_stack_enter(stack);
    while (body->mode != PS_STACK_FAST && stack->frame != &body->base) { /* ends at the base */
        close_innermost(stack);
        ps_stack_enter(stack); /* a large stack has closed itself with its last frame */
    }
    if (body->mode == PS_STACK_MALLOC) {
        ps_stack_single_go_back(stack, NULL);
    } else {
        ps_stack_verify(stack, body->base.top);
        ps_stack_go_back(stack, body->base.top, body->base.end);
    }
    ps_stack_empty(stack, body);
    ps_stack_check_when_empty(stack);
    ps_stack_leave(stack);
}
