/* SPDX-License-Identifier: MIT */
/*
 * allocator.h - one interface for code that is independent of the origin of its memory: a buffer
 * type, a parser, a container takes a struct ps_allocator pointer and works over malloc, a stack, a
 * region, a fifo or a static buffer that falls back to another allocator when it is full.
 *
 *     struct ps_allocator_buffer local;
 *     char room[512];
 *     ps_allocator_buffer_init(&local, room, sizeof room, ps_allocator_malloc());
 *     struct text text = text_read(file, &local.allocator); // malloc only if it is long
 *
 * Sizes are in bytes, up to PTRDIFF_MAX. The caller stores them: free and realloc take the old
 * size. Blocks are aligned to `align`, any power of two; to 16 where no alignment is passed. Size 0
 * gives a unique pointer. NULL with ENOMEM when memory is exhausted, with EINVAL for a bad
 * alignment; nothing has changed then. free(NULL) does nothing.
 *
 * Threads: as its pool; that of malloc serves any thread. Cost: one indirect call on top of the
 * pool's; where the pool is known, call it directly.
 *
 * A custom allocator is a struct that begins with struct ps_allocator, and three functions. If
 * realloc is NULL, blocks are moved. An allocator outlives its blocks.
 *
 * The shape, a table of functions with flags and a fallback from a static buffer to the heap, is
 * that of the mem_pool of Intersec's lib-common.
 */
#ifndef POOLSHIM_ALLOCATOR_H
#define POOLSHIM_ALLOCATOR_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

enum ps_allocator_flags {
    /* Memory is freed by frames, marks or resets: free releases the newest block at most.
     * Containers may omit it, and should reserve rather than grow. */
    PS_ALLOCATOR_BY_FRAME = 1,
    PS_ALLOCATOR_ANY_THREAD = 2, /* no outside lock is needed */
};

struct ps_allocator {
    /* bytes: any, 0 too. align: power of two, else EINVAL. */
    void *(*alloc)(struct ps_allocator *allocator, size_t bytes, size_t align);
    /* block: not NULL, of old_bytes and this align. NULL: it is as it was. May itself be NULL. */
    void *(*realloc)(struct ps_allocator *allocator, void *block, size_t old_bytes,
                     size_t new_bytes, size_t align);
    /* block: not NULL. Preserves errno. */
    void (*free)(struct ps_allocator *allocator, void *block, size_t bytes, size_t align);
    unsigned flags;
};

static inline PS_MALLOC void *ps_allocator_alloc_aligned(struct ps_allocator *allocator,
                                                         size_t bytes, size_t align) {
    return allocator->alloc(allocator, bytes, align);
}

static inline PS_MALLOC void *ps_allocator_alloc(struct ps_allocator *allocator, size_t bytes) {
    return allocator->alloc(allocator, bytes, PS_ALIGN_DEFAULT);
}

/* Zeroed. O(bytes). */
static inline PS_MALLOC void *ps_allocator_zalloc(struct ps_allocator *allocator, size_t bytes) {
    void *block = allocator->alloc(allocator, bytes, PS_ALIGN_DEFAULT);
    return block != NULL ? __builtin_memset(block, 0, bytes) : NULL;
}

/* count elements of `bytes` each; NULL with ENOMEM if the product overflows. */
static inline PS_MALLOC void *ps_allocator_alloc_array(struct ps_allocator *allocator, size_t count,
                                                       size_t bytes) {
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product)) {
        product = SIZE_MAX; /* which is refused */
    }
    return allocator->alloc(allocator, product, PS_ALIGN_DEFAULT);
}

/* block: as it was allocated by the same allocator; NULL does nothing. bytes, align: the same. */
static inline void ps_allocator_free_aligned(struct ps_allocator *allocator, void *block,
                                             size_t bytes, size_t align) {
    if (block != NULL) {
        allocator->free(allocator, block, bytes, align);
    }
}

static inline void ps_allocator_free(struct ps_allocator *allocator, void *block, size_t bytes) {
    ps_allocator_free_aligned(allocator, block, bytes, PS_ALIGN_DEFAULT);
}

/* Changes the size of a block, which may move; contents up to the smaller size are preserved.
 * block: NULL allocates. NULL: the block is as it was. */
PS_API void *ps_allocator_realloc_aligned(struct ps_allocator *allocator, void *block,
                                          size_t old_bytes, size_t new_bytes, size_t align);
static inline void *ps_allocator_realloc(struct ps_allocator *allocator, void *block,
                                         size_t old_bytes, size_t new_bytes) {
    return ps_allocator_realloc_aligned(allocator, block, old_bytes, new_bytes, PS_ALIGN_DEFAULT);
}

/* Copies. O(bytes). */
PS_API PS_MALLOC void *ps_allocator_memdup(struct ps_allocator *allocator, const void *from,
                                           size_t bytes);
PS_API PS_MALLOC char *ps_allocator_strdup(struct ps_allocator *allocator, const char *text);

/* malloc, realloc and free of the program. Any thread. */
PS_API struct ps_allocator *ps_allocator_malloc(void) PS_NOEXCEPT;

/*
 * The caller's buffer, allocated from the front; requests that do not fit go to `next`. free
 * releases the newest block of the buffer, so a single block can grow and shrink there, and moves
 * to `next` when it has outgrown the buffer. One thread. buffer: of any alignment, NULL if bytes is
 * 0. next: NULL for none: then requests that do not fit fail with ENOMEM.
 */
struct ps_allocator_buffer {
    struct ps_allocator allocator;
    char *base;
    char *top; /* the next block */
    char *end;
    struct ps_allocator *next;
};
PS_API void ps_allocator_buffer_init(struct ps_allocator_buffer *allocator, void *buffer,
                                     size_t bytes, struct ps_allocator *next) PS_NOEXCEPT;

PS_END_DECLS

#endif
