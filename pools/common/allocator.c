/* SPDX-License-Identifier: MIT */
/*
 * See poolshim/allocator.h: the generic realloc and copies, and the allocators over malloc and over
 * a buffer. Calls nothing of the other families. No locks.
 */
#include <poolshim/allocator.h>

#include "pools/engine/base/bits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *move(struct ps_allocator *from, struct ps_allocator *to, void *block, size_t old_bytes,
                  size_t new_bytes, size_t align) {
    void *moved = to->alloc(to, new_bytes, align);
    if (moved != NULL) {
        memcpy(moved, block, ps_min(old_bytes, new_bytes));
        from->free(from, block, old_bytes, align);
    }
    return moved;
}

void *ps_allocator_realloc_aligned(struct ps_allocator *allocator, void *block, size_t old_bytes,
                                   size_t new_bytes, size_t align) {
    if (block == NULL) {
        return allocator->alloc(allocator, new_bytes, align);
    }
    if (allocator->realloc == NULL) {
        return move(allocator, allocator, block, old_bytes, new_bytes, align);
    }
    return allocator->realloc(allocator, block, old_bytes, new_bytes, align);
}

void *ps_allocator_memdup(struct ps_allocator *allocator, const void *from, size_t bytes) {
    void *copy = allocator->alloc(allocator, bytes, PS_ALIGN_DEFAULT);
    return copy != NULL && bytes > 0 ? memcpy(copy, from, bytes) : copy;
}

char *ps_allocator_strdup(struct ps_allocator *allocator, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = allocator->alloc(allocator, bytes, 1);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

/* Size 0 is 1: the C library may give NULL for 0. Sizes that no source has are refused here: the
 * sanitizers' malloc would abort. */
static void *malloc_alloc(struct ps_allocator *allocator, size_t bytes, size_t align) {
    (void)allocator;
    bytes = ps_max(bytes, 1);
    void *block = NULL;
    int error = 0;
    if (!ps_is_power_of_two(align)) {
        error = EINVAL;
    } else if (bytes > PTRDIFF_MAX) {
        error = ENOMEM;
    } else if (align <= PS_ALIGN_DEFAULT) {
        return malloc(bytes);
    } else {
        error = posix_memalign(&block, align, bytes);
    }
    if (error != 0) {
        errno = error;
        return NULL;
    }
    return block;
}

static void malloc_free(struct ps_allocator *allocator, void *block, size_t bytes, size_t align) {
    (void)allocator;
    (void)bytes;
    (void)align;
    free(block);
}

static void *malloc_realloc(struct ps_allocator *allocator, void *block, size_t old_bytes,
                            size_t new_bytes, size_t align) {
    if (align > PS_ALIGN_DEFAULT || !ps_is_power_of_two(align) || new_bytes > PTRDIFF_MAX) {
        return move(allocator, allocator, block, old_bytes, new_bytes, align);
    }
    return realloc(block, ps_max(new_bytes, 1));
}

struct ps_allocator *ps_allocator_malloc(void) {
    static struct ps_allocator allocator = {malloc_alloc, malloc_realloc, malloc_free,
                                            PS_ALLOCATOR_ANY_THREAD};
    return &allocator;
}

static bool is_in_buffer(const struct ps_allocator_buffer *buffer, const void *block) {
    return (uintptr_t)block - (uintptr_t)buffer->base <
           (uintptr_t)buffer->end - (uintptr_t)buffer->base;
}

static void *buffer_alloc(struct ps_allocator *allocator, size_t bytes, size_t align) {
    struct ps_allocator_buffer *buffer = (struct ps_allocator_buffer *)allocator;
    if (!ps_is_power_of_two(align)) {
        errno = EINVAL;
        return NULL;
    }
    uintptr_t top = (uintptr_t)buffer->top;
    uintptr_t at = ps_round_up(top, align);
    uintptr_t end = (uintptr_t)buffer->end;
    if (at >= top && at <= end && ps_max(bytes, 1) <= end - at) {
        char *block = buffer->top + (at - top);
        buffer->top = block + ps_max(bytes, 1);
        return block;
    }
    if (buffer->next == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return buffer->next->alloc(buffer->next, bytes, align);
}

static void buffer_free(struct ps_allocator *allocator, void *block, size_t bytes, size_t align) {
    struct ps_allocator_buffer *buffer = (struct ps_allocator_buffer *)allocator;
    if (!is_in_buffer(buffer, block)) {
        buffer->next->free(buffer->next, block, bytes, align);
    } else if ((char *)block + ps_max(bytes, 1) == buffer->top) {
        buffer->top = block;
    }
}

static void *buffer_realloc(struct ps_allocator *allocator, void *block, size_t old_bytes,
                            size_t new_bytes, size_t align) {
    struct ps_allocator_buffer *buffer = (struct ps_allocator_buffer *)allocator;
    if (!is_in_buffer(buffer, block)) {
        return ps_allocator_realloc_aligned(buffer->next, block, old_bytes, new_bytes, align);
    }
    bool is_aligned = ps_is_power_of_two(align) && ((uintptr_t)block & (align - 1)) == 0;
    if ((char *)block + ps_max(old_bytes, 1) == buffer->top && is_aligned &&
        ps_max(new_bytes, 1) <= (size_t)(buffer->end - (char *)block)) {
        buffer->top = (char *)block + ps_max(new_bytes, 1);
        return block;
    }
    if (is_aligned && new_bytes <= old_bytes) {
        return block;
    }
    return move(allocator, allocator, block, old_bytes, new_bytes, align);
}

void ps_allocator_buffer_init(struct ps_allocator_buffer *allocator, void *buffer, size_t bytes,
                              struct ps_allocator *next) {
    char *base = buffer;
    *allocator = (struct ps_allocator_buffer){
        .allocator = {buffer_alloc, buffer_realloc, buffer_free, 0},
        .base = base,
        .top = base,
        .end = base != NULL ? base + bytes : NULL,
        .next = next,
    };
}
