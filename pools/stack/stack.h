/* SPDX-License-Identifier: MIT */
/*
 * Shared declarations of the stack: chunks, the body, and the passage from the inline functions of
 * poolshim/stack.h into the library. One thread at a time per stack, no locks.
 *
 *   chunks of a stack: first .. the one that contains top .. spare ones
 *   stack->top <= stack->end == end of the chunk that contains top, while the stack is open
 *
 * An open stack has its words in struct ps_stack. A closed one has them in the body, and blank
 * words in struct ps_stack, so that each inline function comes here: ps_stack_enter opens,
 * ps_stack_leave closes again where checks are on. A stack without checks is closed only while it
 * is empty and has more than retain_bytes, so that its next push comes here.
 */
#ifndef PS_STACK_STACK_H
#define PS_STACK_STACK_H

#include "pools/common/canary.h"
#include "pools/common/chunk.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/stack.h>
#include <pthread.h>

enum ps_stack_mode {
    PS_STACK_FAST,
    PS_STACK_CHECK,  /* every call comes here: checks, canaries, marks on memory: check.c */
    PS_STACK_MALLOC, /* every block and frame record is a malloc block: single.c */
};

/* For what options leave 0. */
enum { PS_STACK_RETAIN_BYTES = 1 << 20, PS_STACK_TRIM_MS = 10000 };

/* At the start of each chunk; blocks begin after it. */
struct ps_stack_chunk {
    struct ps_stack_chunk *previous;
    struct ps_stack_chunk *next;
    char *end;     /* of blocks, a multiple of 16 */
    size_t bytes;  /* as the source gave it */
    size_t period; /* the body's when the chunk was last entered */
    char *top;     /* where its blocks ended when a later chunk was entered */
};

/* In the first chunk, after its head. */
struct PS_ALIGNED(16) ps_stack_body {
    struct ps_stack stack; /* what create returns; of a thread's stack, unused */
    struct ps_chunks chunks;
    struct ps_stack_chunk *first;
    struct ps_stack_chunk *current; /* contains top, or is a later chunk than that: pop does not
                                       read chunks; ps_stack_current does */
    struct ps_stack_frame base;     /* the blocks outside of all frames */
    struct ps_stack closed;         /* top, end, frame while the stack is closed */
    struct ps_stack_single *newest; /* mode malloc: list of blocks */
    enum ps_stack_mode mode;
    bool is_of_thread; /* never reset: blocks outside of all frames are lost */
    pthread_t owner;
    size_t retain_bytes;
    uint64_t trim_ms;
    uint64_t checked_ms;   /* when the stack was last checked while empty */
    size_t period;         /* counts these checks */
    size_t sampled_bytes;  /* of blocks, estimated; old samples fade */
    size_t sampled_blocks; /* their number; mean == bytes / blocks */
};

_Static_assert(sizeof(struct ps_stack_chunk) % 16 == 0, "blocks after it are aligned to 16");

/* The frame without the mark of its lowest bit. */
static inline struct ps_stack_frame *ps_stack_frame_of(struct ps_stack_frame *frame) {
    return (struct ps_stack_frame *)(void *)((char *)frame - ((uintptr_t)frame & 1));
}

static inline bool ps_stack_is_watched(const struct ps_stack_frame *frame) {
    return ((uintptr_t)frame & 1) != 0;
}

/* Opens the stack, creating that of a thread. NULL: ENOMEM. */
struct ps_stack_body *ps_stack_enter(struct ps_stack *stack);
void ps_stack_leave(struct ps_stack *stack);
void ps_stack_close(struct ps_stack *stack);

/* NULL: ENOMEM. */
struct ps_stack_body *ps_stack_create_body(const struct ps_stack_options *options);
void ps_stack_destroy_body(struct ps_stack_body *body);

/* Gives the calling thread's stack a body, which is destroyed at thread exit: thread.c. */
bool ps_stack_create_of_thread(struct ps_stack *stack);

/* No frames, no blocks; the stack is open, and its body is `body`. */
void ps_stack_empty(struct ps_stack *stack, struct ps_stack_body *body);

/* The first byte for blocks. */
char *ps_stack_chunk_start(const struct ps_stack_body *body, const struct ps_stack_chunk *chunk);

/* The chunk that contains top. The stack is open. */
struct ps_stack_chunk *ps_stack_current(struct ps_stack *stack);

/*
 * Moves top to the start of the next chunk with room for a block; the rest of this one is unused
 * until pop. bytes: at most PTRDIFF_MAX. wanted: >= bytes, the preferred room. False: ENOMEM.
 */
bool ps_stack_next_chunk(struct ps_stack *stack, size_t bytes, size_t align, size_t wanted);

/* Resets top and end: all memory above is poisoned. */
void ps_stack_go_back(struct ps_stack *stack, char *top, char *end);

/* Makes the pop of the outermost frame call the library. */
void ps_stack_watch_outermost(struct ps_stack *stack);

/* Called when the outermost frame closes: returns chunks that were not used lately. */
void ps_stack_check_when_empty(struct ps_stack *stack);

/* True when the block is of the innermost frame. */
bool ps_stack_is_of_frame(struct ps_stack *stack, const void *block);

/* Half as much again: an array that grows step by step beyond the length of chunks is moved a
 * logarithmic number of times. */
static inline size_t ps_stack_with_room_to_grow(size_t old_bytes, size_t new_bytes) {
    return new_bytes > old_bytes ? new_bytes + new_bytes / 2 : new_bytes;
}

/* As alloc, on an open stack; `wanted` as above. */
void *ps_stack_alloc_open(struct ps_stack *stack, size_t bytes, size_t align, size_t wanted);

/* The same in every mode. */
void *ps_stack_alloc_any_mode(struct ps_stack *stack, size_t bytes, size_t align);

/* Mode check. As alloc_open. */
void *ps_stack_checked_alloc(struct ps_stack *stack, size_t bytes, size_t align, size_t wanted);
void *ps_stack_checked_realloc(struct ps_stack *stack, void *block, size_t old_bytes,
                               size_t new_bytes, size_t align);
bool ps_stack_checked_free_last(struct ps_stack *stack, void *block, size_t bytes);
/* Aborts where a canary of the blocks from `from` on has changed, which are the innermost frame's.
 * Nothing in other modes. */
void ps_stack_verify(struct ps_stack *stack, const char *from);
/* The first place for a block of the frame. */
const char *ps_stack_first_block(const struct ps_stack *stack, const struct ps_stack_frame *frame);
/* False: no block begins or ends there. */
bool ps_stack_checked_has_place(struct ps_stack *stack, const struct ps_stack_mark *mark);

/* Mode malloc. */
void *ps_stack_single_alloc(struct ps_stack *stack, size_t bytes, size_t align);
void *ps_stack_single_realloc(struct ps_stack *stack, void *block, size_t old_bytes,
                              size_t new_bytes, size_t align);
bool ps_stack_single_free_last(struct ps_stack *stack, void *block);
struct ps_stack_frame *ps_stack_single_push(struct ps_stack *stack);
/* Frees the blocks that are newer than `oldest_kept`, which may be NULL. */
void ps_stack_single_go_back(struct ps_stack *stack, const void *oldest_kept);
void ps_stack_single_free_frame(struct ps_stack_frame *frame);
bool ps_stack_single_has(const struct ps_stack *stack, const struct ps_stack_single *single);
bool ps_stack_single_owns(const struct ps_stack *stack, const void *address);
/* 1: a is newer than b, -1: older, 0: the same. NULL is older than all. */
int ps_stack_single_order(const struct ps_stack *stack, const void *a, const void *b);
size_t ps_stack_single_bytes(const struct ps_stack *stack);

#endif
