/* SPDX-License-Identifier: MIT */
/*
 * Stacks: the order of marks, the room that is left, and options that may change. Callers:
 * users. Calls stack.c. No locks: one thread at a time.
 */
#include "pools/stack/stack.h"

/* The ends of two chunks are compared: 1 when a's is the newer one. */
static int order_of_chunks(const struct ps_stack_chunk *current, const char *a, const char *b) {
    for (const struct ps_stack_chunk *at = current; at != NULL; at = at->previous) {
        if (at->end == a || at->end == b) {
            return at->end == a ? 1 : -1;
        }
    }
    return 0;
}

int ps_stack_mark_compare(struct ps_stack *stack, struct ps_stack_mark a, struct ps_stack_mark b) {
    if ((a.end == b.end && a.top == b.top) || stack->body == NULL) {
        return 0;
    }
    bool was_closed = stack->frame == PS_STACK_CLOSED;
    struct ps_stack_body *body = ps_stack_enter(stack);
    int order = 0;
    if (body->mode == PS_STACK_MALLOC) {
        order = ps_stack_single_order(stack, a.top, b.top);
    } else if (a.end == b.end) {
        order = (uintptr_t)a.top < (uintptr_t)b.top ? -1 : 1;
    } else {
        order = order_of_chunks(ps_stack_current(stack), a.end, b.end);
    }
    if (was_closed) {
        ps_stack_close(stack);
    }
    return order;
}

size_t ps_stack_capacity_left(struct ps_stack *stack) {
    const struct ps_stack *words = stack;
    if (stack->body == NULL || stack->body->mode == PS_STACK_MALLOC) {
        return 0;
    }
    if (stack->frame == PS_STACK_CLOSED) {
        words = &stack->body->closed;
    }
    size_t room = (size_t)(words->end - words->top);
    return stack->body->mode == PS_STACK_CHECK ? room - ps_min(room, PS_CANARY_COST) : room;
}

void ps_stack_set_growth(struct ps_stack *stack, size_t next_bytes, size_t max_bytes) {
    if (stack->body != NULL) {
        ps_chunks_set_growth(&stack->body->chunks, next_bytes, max_bytes);
    }
}

void ps_stack_set_retain(struct ps_stack *stack, size_t retain_bytes, unsigned trim_ms) {
    if (stack->body != NULL) {
        stack->body->retain_bytes = retain_bytes != 0 ? retain_bytes : PS_STACK_RETAIN_BYTES;
        stack->body->trim_ms = trim_ms != 0 ? trim_ms : PS_STACK_TRIM_MS;
    }
}
