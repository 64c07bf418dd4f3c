/* SPDX-License-Identifier: MIT */
/*
 * stack.h - memory that is freed when the function that needed it returns: temporary strings, work
 * arrays, the nodes of one request. A frame is opened by push and closed by pop, and pop frees all
 * blocks since, in a few instructions, whatever their number. Frames nest, as calls do.
 *
 *     struct ps_stack_frame *frame = ps_stack_push(stack);
 *     char *path = ps_stack_printf(stack, "%s/%s", folder, name);
 *     int *counts = ps_stack_zalloc(stack, 1000 * sizeof *counts);
 *     ...
 *     ps_stack_pop(stack, frame); // path and counts are freed
 *
 * Every thread has a stack of its own, which needs no creation (pools/examples/stack.c is a whole
 * program):
 *
 *     double median(const double *values, size_t count) {
 *         PS_SCOPE; // a frame that ends with the block, on every way out of it
 *         double *sorted = ps_t_new(double, count);
 *         ...
 *         return sorted[count / 2];
 *     }
 *
 * A function that returns memory of its caller's frame opens no frame of its own around it, and is
 * by convention named t_something, or marked PS_RETURNS_SCOPED (common.h). The command `poolshim
 * scopes` finds those that do otherwise.
 *
 * Sizes are in bytes, up to PTRDIFF_MAX; a block takes them rounded up to 8. Blocks are aligned to
 * 16, those of the _aligned functions as passed, texts to 8. Size 0 gives a unique pointer.
 * Contents are not defined except for zalloc. NULL with ENOMEM: memory is exhausted or the size is
 * too large; the stack is as it was. NULL with EINVAL: the alignment is no power of two. Larger
 * blocks than a chunk get a chunk of their own, of any size.
 *
 * Lifetime: a block lives until its frame is popped, until rewind to a mark taken before it, or
 * until reset or destroy. Blocks allocated outside of all frames live until reset or destroy.
 *
 * Leaving frames early. C++ exceptions close PS_SCOPE and ps::scope; in C files that needs
 * -fexceptions. longjmp closes nothing: the function that called setjmp calls ps_stack_unwind (or
 * ps_t_unwind) with its own frame, which closes the inner ones too. A pop that finds another frame
 * innermost aborts, "poolshim: unbalanced pop of frame ...": a return without pop is found when the
 * caller pops.
 *
 * Threads: one at a time per stack; stacks are independent. With PS_DEBUG=check it is the thread
 * that created it, until another calls ps_stack_adopt. The stack of a thread is freed when the
 * thread ends; it may be used before main, in destructors, and in a child after fork.
 *
 * Cost: alloc, push, pop, mark and rewind are inline, a handful of instructions, and touch no
 * memory but the stack's own three words and the frame record, 32 bytes in the stack. The source is
 * called once per chunk, and not while spare chunks are left: pop frees no chunk. Chunks double
 * from first_bytes (64 KiB) to max_bytes (32 MiB), and have room for 64 blocks of the recent mean
 * size, within the same cap. ps_stack_trim_to returns memory. So does an empty stack with more than
 * retain_bytes: it frees the chunks that were unused for trim_ms.
 *
 * With PS_DEBUG=check (and in checked builds) also found: use by another thread, realloc of a block
 * of an outer frame, allocation in a sealed frame, marks that are not of the frame, have expired or
 * lie ahead, allocation in a thread's stack outside of all frames. Each block has 48 bytes in front
 * of it and 16 or more after it that must not change: a write over them is found by pop, rewind,
 * reset, trim_to, destroy and ps_stack_check, and by realloc and free_last of the block. With
 * PS_DEBUG=malloc each block is a malloc block. Both cost a function call per operation.
 *
 * The design, frame records in the stack itself and a thread-local stack with scopes, is that of
 * the stack allocator of Intersec's lib-common; marks are foonathan/memory's.
 */
#ifndef POOLSHIM_STACK_H
#define POOLSHIM_STACK_H

#include <poolshim/allocator.h>
#include <poolshim/source.h>
#include <stdarg.h>

PS_BEGIN_DECLS

/* Options; all zero is the default. */
struct ps_stack_options {
    struct ps_chunk_options chunks; /* defaults: first_bytes 64 KiB, max_bytes 32 MiB */
    size_t retain_bytes;            /* always retained when empty; 0: 1 MiB; SIZE_MAX: everything */
    unsigned trim_ms;               /* how long an unused chunk above that is retained; 0: 10 s */
};

/* A frame's record, in the stack. Fields are the library's own. */
struct ps_stack_frame {
    struct ps_stack_frame *previous; /* lowest bit: the pop of that frame must check the stack */
    char *top;                       /* where the stack was at push */
    char *end;
    size_t is_sealed; /* written only where checks are on */
};

/* Fields are the library's own. Closed: frame is PS_STACK_CLOSED and there is no room between top
 * and end, so that every call goes out of line, where the body has the true values. */
struct ps_stack {
    char *top;                    /* the next block, a multiple of 8 */
    char *end;                    /* of the chunk, a multiple of 16 */
    struct ps_stack_frame *frame; /* the innermost */
    struct ps_stack_body *body;   /* NULL: a thread's stack that is not created yet */
};
#define PS_STACK_CLOSED ((struct ps_stack_frame *)(uintptr_t)1)

/* A position in the stack. Fields are the library's own. */
struct ps_stack_mark {
    char *top;
    char *end;
    struct ps_stack_frame *frame;
};

/*
 * A stack. options: NULL, or read before the call returns. Its record is in its first chunk, which
 * it never returns before its end. NULL with ENOMEM. Cost: one chunk.
 */
PS_API struct ps_stack *ps_stack_create(const struct ps_stack_options *options);

/* Frees the stack with all chunks, whatever frames are open. NULL does nothing. O(chunks). */
PS_API void ps_stack_destroy(struct ps_stack *stack) PS_NOEXCEPT;

/* Closes all frames and forgets all blocks; retains the chunks. O(1). */
PS_API void ps_stack_reset(struct ps_stack *stack) PS_NOEXCEPT;

/* Returns chunks without blocks to the source, the last ones first, while it has more than
 * keep_bytes. Returns their bytes. O(chunks). */
PS_API size_t ps_stack_trim_to(struct ps_stack *stack, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_stack_trim_to")
PS_API size_t ps_stack_trim(struct ps_stack *stack, size_t keep_bytes) PS_NOEXCEPT;

/* Makes the caller's thread the owner of the stack, while checks are on. Otherwise does nothing. */
PS_API void ps_stack_adopt(struct ps_stack *stack) PS_NOEXCEPT;

/*
 * Forbids allocation in the innermost frame (new frames inside it are permitted), or permits it
 * again, while checks are on. A caller seals its frame around a call to find a callee without
 * PS_SCOPE. Otherwise does nothing.
 */
PS_API void ps_stack_seal(struct ps_stack *stack) PS_NOEXCEPT;
PS_API void ps_stack_unseal(struct ps_stack *stack) PS_NOEXCEPT;

/* Changes options from now on, as there: the length of the next chunk and the cap up to which later
 * ones double, where 0 changes nothing; and the bytes retained when the stack is empty. Does
 * nothing for a thread's stack that is not used yet. O(1). */
PS_API void ps_stack_set_growth(struct ps_stack *stack, size_t next_bytes,
                                size_t max_bytes) PS_NOEXCEPT;
PS_API void ps_stack_set_retain(struct ps_stack *stack, size_t retain_bytes,
                                unsigned trim_ms) PS_NOEXCEPT;

/* Verifies what PS_DEBUG=check does at pop, of all blocks, and changes nothing; without it does
 * nothing. A breach ends the program with a line. O(blocks). */
PS_API void ps_stack_check(struct ps_stack *stack) PS_NOEXCEPT;

/* Lists the stack in the registry of poolshim/registry.h, until it is destroyed; does nothing if it
 * is listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_stack_enlist(struct ps_stack *stack) PS_NOEXCEPT;

struct ps_stack_stats {
    const char *name;
    size_t held_bytes;  /* all chunks */
    size_t used_bytes;  /* up to the newest block, with frame records and unused ends of chunks */
    size_t mean_bytes;  /* estimated mean of the last sizes; 0: none yet */
    size_t chunk_count; /* with the spare ones */
    size_t frame_count; /* open */
};
/* O(chunks + frames). */
PS_API void ps_stack_stats(struct ps_stack *stack, struct ps_stack_stats *stats) PS_NOEXCEPT;

/* True when the address lies in the used part of the stack. O(chunks). */
PS_API bool ps_stack_owns(struct ps_stack *stack, const void *address) PS_NOEXCEPT;

/* The name of the options, or "stack". */
PS_API const char *ps_stack_name(struct ps_stack *stack) PS_NOEXCEPT;

/* Out of line: where the inline functions below find no room, a frame that is not innermost, or a
 * stack that is closed. Not to be called. */
PS_API void *ps_stack_alloc_slow(struct ps_stack *stack, size_t bytes, size_t align);
PS_API void *ps_stack_realloc_slow(struct ps_stack *stack, void *block, size_t old_bytes,
                                   size_t new_bytes, size_t align);
PS_API bool ps_stack_free_last_slow(struct ps_stack *stack, void *block, size_t bytes) PS_NOEXCEPT;
PS_API struct ps_stack_frame *ps_stack_push_slow(struct ps_stack *stack);
PS_API void ps_stack_pop_slow(struct ps_stack *stack, struct ps_stack_frame *frame) PS_NOEXCEPT;
PS_API void ps_stack_mark_slow(struct ps_stack *stack, struct ps_stack_mark *mark) PS_NOEXCEPT;
PS_API void ps_stack_rewind_slow(struct ps_stack *stack,
                                 const struct ps_stack_mark *mark) PS_NOEXCEPT;

/*
 * A block of `bytes`, aligned to `align`, any power of two; takes a multiple of 8 bytes, so that up
 * to 8 no alignment is computed. O(1); calls the source when the chunk ends. For constant arguments
 * this is load, compare, add, store.
 */
static inline PS_MALLOC void *ps_stack_alloc_aligned(struct ps_stack *stack, size_t bytes,
                                                     size_t align) {
    /* Rounded up, less one: the largest number for 0, and for sizes whose rounding overflows. */
    size_t last = (bytes - 1) | 7;
    size_t pad = align > 8 ? (0 - (uintptr_t)stack->top) & (align - 1) : 0;
    /* end is a multiple of 16: a pad up to 16 fits in front of it. */
    size_t room = (uintptr_t)stack->end - (uintptr_t)stack->top - pad;
    bool is_fit = align != 0 && (align & (align - 1)) == 0 &&
                  (align <= PS_ALIGN_DEFAULT || room <= PTRDIFF_MAX) && last < room;
    char *block;
    char *top;
    if (__builtin_expect(is_fit, 1)) {
        block = stack->top + pad;
        PS_KNOWN(block != NULL);
        top = block + last + 1;
    } else {
        block = (char *)ps_stack_alloc_slow(stack, bytes, align);
        /* Reads both words again and stores one that has not changed: so both are known on either
         * path, and compilers allocate registers for them from one block to the next. That, and no
         * computed alignment, make 0.5 ns of 1.0 ns a block in a loop of 8-byte blocks. */
        top = stack->top;
        __asm__ volatile("" : : "r"(stack->end));
    }
    stack->top = top;
    return block;
}

static inline PS_MALLOC void *ps_stack_alloc(struct ps_stack *stack, size_t bytes) {
    return ps_stack_alloc_aligned(stack, bytes, PS_ALIGN_DEFAULT);
}

/* Zeroed. O(bytes). */
static inline PS_MALLOC void *ps_stack_zalloc(struct ps_stack *stack, size_t bytes) {
    void *block = ps_stack_alloc(stack, bytes);
    return block != NULL ? __builtin_memset(block, 0, bytes) : NULL;
}

/* count elements of `bytes` each, zero or more of either; NULL with ENOMEM if the product
 * overflows. */
static inline PS_MALLOC void *ps_stack_alloc_array(struct ps_stack *stack, size_t count,
                                                   size_t bytes, size_t align) {
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product)) {
        product = SIZE_MAX; /* which is refused */
    }
    return ps_stack_alloc_aligned(stack, product, align);
}

/* Bytes of the stack that a block of `bytes` takes. bytes: of an existing block. */
static inline size_t ps_stack_rounded(size_t bytes) {
    return (bytes + (bytes == 0) + 7) & ~(size_t)7;
}

/*
 * Changes the size of a block. block: of the innermost frame; NULL allocates. old_bytes: its size.
 * The newest block grows and shrinks where it is if the chunk has room, others only shrink there;
 * else the contents move to a new block. align: as the block was allocated, or another one. NULL:
 * the block is as it was. new_bytes 0 gives a block of size 0. O(1) in place, else O(old_bytes); a
 * block that grows step by step is moved O(log) times.
 */
static inline void *ps_stack_realloc_aligned(struct ps_stack *stack, void *block, size_t old_bytes,
                                             size_t new_bytes, size_t align) {
    uintptr_t at = (uintptr_t)block;
    size_t last = (new_bytes - 1) | 7; /* as in alloc */
    bool is_fit = at + ps_stack_rounded(old_bytes) == (uintptr_t)stack->top &&
                  (at & (align - 1)) == 0 && (align & (align - 1)) == 0 &&
                  last < (uintptr_t)stack->end - at;
    if (__builtin_expect(!is_fit, 0)) {
        return ps_stack_realloc_slow(stack, block, old_bytes, new_bytes, align);
    }
    stack->top = (char *)block + last + 1;
    return block;
}

static inline void *ps_stack_realloc(struct ps_stack *stack, void *block, size_t old_bytes,
                                     size_t new_bytes) {
    return ps_stack_realloc_aligned(stack, block, old_bytes, new_bytes, PS_ALIGN_DEFAULT);
}

/* Frees a block if it is the newest of the innermost frame: true; else nothing happens: false.
 * bytes: its size. O(1). */
static inline bool ps_stack_free_last(struct ps_stack *stack, void *block,
                                      size_t bytes) PS_NOEXCEPT {
    if (__builtin_expect(stack->frame == PS_STACK_CLOSED, 0)) {
        return ps_stack_free_last_slow(stack, block, bytes);
    }
    bool is_last = (uintptr_t)block + ps_stack_rounded(bytes) == (uintptr_t)stack->top;
    stack->top = is_last ? (char *)block : stack->top;
    return is_last;
}

/* Copies of `bytes` bytes (aligned to 16), of a string, of at most `most` bytes of a string and a
 * terminating zero. O(bytes). */
PS_API PS_MALLOC void *ps_stack_memdup(struct ps_stack *stack, const void *from, size_t bytes);
PS_API PS_MALLOC char *ps_stack_strdup(struct ps_stack *stack, const char *text);
PS_API PS_MALLOC char *ps_stack_strndup(struct ps_stack *stack, const char *text, size_t most);

/* printf into the stack, without a copy: the text is formatted at its place. NULL also when the
 * format fails, with errno as vsnprintf left it. */
PS_API PS_PRINTF(2, 3) char *ps_stack_printf(struct ps_stack *stack, const char *format, ...);
PS_API PS_PRINTF(2, 0) char *ps_stack_vprintf(struct ps_stack *stack, const char *format,
                                              va_list arguments);

/* The library's own: a word that moves by itself. Compilers join such moves into 16-byte ones,
 * whose load stalls until the 8-byte stores complete: 9 ns instead of 2. By void *, since a cast
 * that adds volatile below a pointer is one for -Wcast-qual. */
#define PS_STACK_WORD(type, word) (*(type volatile *)(void *)&(word))

/* Opens a frame, to be given to pop. NULL with ENOMEM. O(1). */
static inline struct ps_stack_frame *ps_stack_push(struct ps_stack *stack) {
    uintptr_t room = (uintptr_t)stack->end - (uintptr_t)stack->top;
    if (__builtin_expect(room < sizeof(struct ps_stack_frame), 0)) {
        return ps_stack_push_slow(stack);
    }
    struct ps_stack_frame *frame = (struct ps_stack_frame *)(void *)stack->top;
    PS_STACK_WORD(struct ps_stack_frame *, frame->previous) = stack->frame;
    PS_STACK_WORD(char *, frame->top) = stack->top;
    PS_STACK_WORD(char *, frame->end) = stack->end;
    stack->frame = frame;
    stack->top = (char *)(frame + 1);
    return frame;
}

/* Closes the innermost frame, which must be `frame`, and frees its blocks. NULL, of a push that
 * failed, does nothing. O(1). */
static inline void ps_stack_pop(struct ps_stack *stack, struct ps_stack_frame *frame) PS_NOEXCEPT {
    if (__builtin_expect(stack->frame != frame, 0)) {
        ps_stack_pop_slow(stack, frame);
        return;
    }
    PS_STACK_WORD(char *, stack->top) = PS_STACK_WORD(char *, frame->top);
    PS_STACK_WORD(char *, stack->end) = PS_STACK_WORD(char *, frame->end);
    stack->frame = PS_STACK_WORD(struct ps_stack_frame *, frame->previous);
}

/* Closes `frame` and all frames inside it, however they were left. Aborts if it is not open.
 * O(frames closed). */
PS_API void ps_stack_unwind(struct ps_stack *stack, struct ps_stack_frame *frame) PS_NOEXCEPT;

/* True when `frame` is the innermost: only then new blocks belong to it. O(1). */
PS_API bool ps_stack_is_innermost(struct ps_stack *stack,
                                  const struct ps_stack_frame *frame) PS_NOEXCEPT;

/* The position now. Valid while its frame is innermost or encloses others, and the stack is not
 * rewound below it. O(1). */
static inline struct ps_stack_mark ps_stack_mark(struct ps_stack *stack) PS_NOEXCEPT {
    struct ps_stack_mark mark;
    mark.top = stack->top;
    mark.end = stack->end;
    mark.frame = stack->frame;
    if (__builtin_expect(mark.frame == PS_STACK_CLOSED, 0)) {
        ps_stack_mark_slow(stack, &mark);
    }
    return mark;
}

/* Frees all blocks allocated since the mark, which may be used again. The frame of the mark must be
 * innermost, else it aborts. O(1). */
static inline void ps_stack_rewind(struct ps_stack *stack, struct ps_stack_mark mark) PS_NOEXCEPT {
    if (__builtin_expect(stack->frame != mark.frame || mark.frame == PS_STACK_CLOSED, 0)) {
        ps_stack_rewind_slow(stack, &mark);
        return;
    }
    stack->top = mark.top;
    stack->end = mark.end;
}

/* The order of two marks of this stack that are valid still: -1 when a was taken before b, with
 * blocks in between, 1 after it, 0 when no block lies between them. O(1) in one chunk, else
 * O(chunks); with PS_DEBUG=malloc O(blocks). */
PS_API int ps_stack_mark_compare(struct ps_stack *stack, struct ps_stack_mark a,
                                 struct ps_stack_mark b) PS_NOEXCEPT;

/* Bytes that are left in the chunk: a block of as many comes without another chunk if it is aligned
 * to at most 8. 0 for a thread's stack not used yet, and with PS_DEBUG=malloc. O(1). */
PS_API size_t ps_stack_capacity_left(struct ps_stack *stack) PS_NOEXCEPT;

/* A frame of `stack` that ends with the enclosing block: PS_STACK_SCOPE(stack); */
struct ps_stack_scope {
    struct ps_stack *stack;
    struct ps_stack_frame *frame;
};
static inline struct ps_stack_scope ps_stack_scope_open(struct ps_stack *stack) {
    struct ps_stack_scope scope;
    scope.stack = stack;
    scope.frame = ps_stack_push(stack);
    return scope;
}
static inline void ps_stack_scope_close(struct ps_stack_scope *scope) PS_NOEXCEPT {
    ps_stack_pop(scope->stack, scope->frame);
}
#define PS_STACK_SCOPE(stack) PS_STACK_SCOPE_NAMED(stack, __COUNTER__)
#define PS_STACK_SCOPE_NAMED(stack, number) PS_STACK_SCOPE_AS(stack, number)
#define PS_STACK_SCOPE_AS(stack, number)                                                           \
    __attribute__((cleanup(ps_stack_scope_close),                                                  \
                   unused)) struct ps_stack_scope ps_scope_##number = ps_stack_scope_open(stack)

/*
 * The stack of the calling thread: created by its first use, from the page cache, freed when the
 * thread ends. Every function above may be used with ps_t() but destroy.
 */
extern PS_API __thread struct ps_stack ps_t_stack __attribute__((tls_model("initial-exec")));
static inline struct ps_stack *ps_t(void) PS_NOEXCEPT {
    struct ps_stack *stack = &ps_t_stack;
    /* Without it GCC 12 tests the address for NULL, where a sanitizer requires that, by the flags
     * of an add that the linker then makes a lea, which sets none. */
    __asm__("" : "+r"(stack));
    return stack;
}

/* A frame that ends with the enclosing block: PS_SCOPE; */
static inline struct ps_stack_frame *ps_t_push(void) { return ps_stack_push(ps_t()); }
static inline void ps_t_pop(struct ps_stack_frame *frame) PS_NOEXCEPT {
    ps_stack_pop(ps_t(), frame);
}
static inline void ps_t_unwind(struct ps_stack_frame *frame) PS_NOEXCEPT {
    ps_stack_unwind(ps_t(), frame);
}
static inline void ps_t_scope_close(struct ps_stack_frame **frame) PS_NOEXCEPT {
    ps_stack_pop(ps_t(), *frame);
}
#define PS_SCOPE PS_SCOPE_NAMED(__COUNTER__)
#define PS_SCOPE_NAMED(number) PS_SCOPE_AS(number)
#define PS_SCOPE_AS(number)                                                                        \
    __attribute__((cleanup(ps_t_scope_close), unused)) struct ps_stack_frame *ps_scope_##number =  \
        ps_t_push()

/* As the functions of the same names above, in the thread's innermost frame. */
static inline PS_MALLOC void *ps_t_alloc(size_t bytes) { return ps_stack_alloc(ps_t(), bytes); }
static inline PS_MALLOC void *ps_t_alloc_aligned(size_t bytes, size_t align) {
    return ps_stack_alloc_aligned(ps_t(), bytes, align);
}
static inline PS_MALLOC void *ps_t_zalloc(size_t bytes) { return ps_stack_zalloc(ps_t(), bytes); }
static inline void *ps_t_realloc(void *block, size_t old_bytes, size_t new_bytes) {
    return ps_stack_realloc(ps_t(), block, old_bytes, new_bytes);
}
static inline PS_MALLOC void *ps_t_memdup(const void *from, size_t bytes) {
    return ps_stack_memdup(ps_t(), from, bytes);
}
static inline PS_MALLOC char *ps_t_strdup(const char *text) {
    return ps_stack_strdup(ps_t(), text);
}
PS_API PS_PRINTF(1, 2) char *ps_t_printf(const char *format, ...);

/* `count` elements of a type, with its alignment, not zeroed; a pointer to the type. */
#define ps_stack_new(stack, type, count)                                                           \
    PS_CAST(type *, ps_stack_alloc_array((stack), (count), sizeof(type), __alignof__(type)))
#define ps_t_new(type, count) ps_stack_new(ps_t(), type, count)

/* A stack with the interface of allocator.h: free releases the newest block only. stack: NULL is
 * the stack of the calling thread. */
struct ps_stack_allocator {
    struct ps_allocator allocator;
    struct ps_stack *stack;
};
PS_API void ps_stack_allocator_init(struct ps_stack_allocator *allocator,
                                    struct ps_stack *stack) PS_NOEXCEPT;

PS_END_DECLS

#endif
