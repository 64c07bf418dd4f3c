/* SPDX-License-Identifier: MIT */
/*
 * Functions on top of alloc of a stack: realloc, free of the newest block, copies, text; seals,
 * names, and the allocator of poolshim/allocator.h. Calls stack.c, single.c. One thread at a time
 * per stack.
 */
#include "pools/stack/stack.h"

#include "pools/common/debug.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *realloc_open(struct ps_stack *stack, char *block, size_t old_bytes, size_t new_bytes,
                          size_t align) {
    size_t old_need = ps_stack_rounded(old_bytes);
    size_t need = ps_stack_rounded(new_bytes);
    bool is_aligned = ((uintptr_t)block & (align - 1)) == 0;
    bool is_newest = block + old_need == stack->top;
    if (is_aligned && is_newest && need <= (size_t)(stack->end - block)) {
        stack->top = block + need;
    } else if (!is_aligned || new_bytes > old_bytes) {
        char *moved = ps_stack_alloc_open(stack, new_bytes, align,
                                          ps_stack_with_room_to_grow(old_bytes, new_bytes));
        if (moved != NULL) {
            memcpy(moved, block, ps_min(old_bytes, new_bytes));
        }
        return moved;
    }
    return block;
}

void *ps_stack_realloc_slow(struct ps_stack *stack, void *block, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    if (block == NULL || !ps_is_power_of_two(align)) {
        return ps_stack_alloc_slow(stack, new_bytes, align);
    }
    if (new_bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    struct ps_stack_body *body = ps_stack_enter(stack);
    if (body == NULL) {
        return NULL;
    }
    void *result = body->mode == PS_STACK_MALLOC
                       ? ps_stack_single_realloc(stack, block, old_bytes, new_bytes, align)
                   : body->mode == PS_STACK_CHECK
                       ? ps_stack_checked_realloc(stack, block, old_bytes, new_bytes, align)
                       : realloc_open(stack, block, old_bytes, new_bytes, align);
    ps_stack_leave(stack);
    return result;
}

bool ps_stack_free_last_slow(struct ps_stack *stack, void *block, size_t bytes) {
    if (block == NULL || stack->body == NULL) {
        return false;
    }
    bool was_closed = stack->frame == PS_STACK_CLOSED;
    struct ps_stack_body *body = ps_stack_enter(stack);
    bool is_last;
    if (body->mode == PS_STACK_MALLOC) {
        is_last = ps_stack_single_free_last(stack, block);
    } else if (body->mode == PS_STACK_CHECK) {
        is_last = ps_stack_checked_free_last(stack, block, bytes);
    } else {
        is_last = (char *)block + ps_stack_rounded(bytes) == stack->top;
        if (is_last) {
            ps_stack_go_back(stack, block, stack->end);
        }
    }
    if (was_closed) {
        ps_stack_close(stack);
    }
    return is_last;
}

void *ps_stack_memdup(struct ps_stack *stack, const void *from, size_t bytes) {
    void *copy = ps_stack_alloc(stack, bytes);
    return copy != NULL && bytes > 0 ? memcpy(copy, from, bytes) : copy;
}

static char *copy_text(struct ps_stack *stack, const char *text, size_t length) {
    char *copy = ps_stack_alloc_aligned(stack, length + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *ps_stack_strdup(struct ps_stack *stack, const char *text) {
    return copy_text(stack, text, strlen(text));
}

char *ps_stack_strndup(struct ps_stack *stack, const char *text, size_t most) {
    return copy_text(stack, text, strnlen(text, most));
}

/* Formats text at its final place; text that does not fit is formatted again, in its block. While
 * checks are on, nothing may be written before there is a block. */
static char *format_open(struct ps_stack *stack, const char *format, va_list arguments) {
    enum ps_stack_mode mode = stack->body->mode;
    char *text = stack->top;
    size_t room = mode == PS_STACK_FAST ? (size_t)(stack->end - text) : 0;
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(room > 0 ? text : NULL, room, format, arguments);
    if (length < 0) {
        text = NULL;
    } else if ((size_t)length < room) {
        stack->top = text + ps_stack_rounded((size_t)length + 1);
    } else {
        size_t bytes = (size_t)length + 1;
        text = ps_stack_alloc_any_mode(stack, bytes, 1);
        if (text != NULL) {
            vsnprintf(text, bytes, format, again);
        }
    }
    va_end(again);
    return text;
}

char *ps_stack_vprintf(struct ps_stack *stack, const char *format, va_list arguments) {
    if (ps_stack_enter(stack) == NULL) {
        return NULL;
    }
    char *text = format_open(stack, format, arguments);
    ps_stack_leave(stack);
    return text;
}

char *ps_stack_printf(struct ps_stack *stack, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = ps_stack_vprintf(stack, format, arguments);
    va_end(arguments);
    return text;
}

char *ps_t_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = ps_stack_vprintf(ps_t(), format, arguments);
    va_end(arguments);
    return text;
}

static void set_sealed(struct ps_stack *stack, bool is_sealed) {
    if (stack->body != NULL && stack->body->mode != PS_STACK_FAST) {
        ps_stack_enter(stack);
        ps_stack_frame_of(stack->frame)->is_sealed = is_sealed;
        ps_stack_leave(stack);
    }
}

void ps_stack_seal(struct ps_stack *stack) { set_sealed(stack, true); }

void ps_stack_unseal(struct ps_stack *stack) { set_sealed(stack, false); }

void ps_stack_adopt(struct ps_stack *stack) {
    if (stack->body != NULL) {
        stack->body->owner = pthread_self();
    }
}

const char *ps_stack_name(struct ps_stack *stack) {
    return stack->body != NULL ? stack->body->chunks.name : "stack";
}

static struct ps_stack *stack_of(struct ps_allocator *allocator) {
    struct ps_stack *stack = ((struct ps_stack_allocator *)allocator)->stack;
    return stack != NULL ? stack : ps_t();
}

static void *allocator_alloc(struct ps_allocator *allocator, size_t bytes, size_t align) {
    return ps_stack_alloc_aligned(stack_of(allocator), bytes, align);
}

static void *allocator_realloc(struct ps_allocator *allocator, void *block, size_t old_bytes,
                               size_t new_bytes, size_t align) {
    return ps_stack_realloc_aligned(stack_of(allocator), block, old_bytes, new_bytes, align);
}

static void allocator_free(struct ps_allocator *allocator, void *block, size_t bytes,
                           size_t align) {
    (void)align;
    ps_stack_free_last(stack_of(allocator), block, bytes);
}

void ps_stack_allocator_init(struct ps_stack_allocator *allocator, struct ps_stack *stack) {
    *allocator = (struct ps_stack_allocator){
        .allocator = {allocator_alloc, allocator_realloc, allocator_free,
                      PS_ALLOCATOR_BY_FRAME | (stack == NULL ? PS_ALLOCATOR_ANY_THREAD : 0u)},
        .stack = stack,
    };
}
