/* SPDX-License-Identifier: MIT */
/*
 * The chunks of a stack: which one comes next, how long a new one is, and when spare ones return.
 * Callers: the other files of the stack. Calls common/chunk.h. One thread at a time per stack.
 *
 * No counter runs on the inline path, so the mean size of blocks is estimated here: the block that
 * does not fit at the end of a chunk is a sample, in which large blocks come up in proportion to
 * their size; a chunk of B bytes ended by a block of s bytes is therefore counted as B / s blocks,
 * whose expectation is the true number. Old samples weigh less and less.
 */
#include "pools/stack/stack.h"

#include "pools/common/debug.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/os.h"

#include <errno.h>
#include <string.h>

enum {
    BLOCKS_PER_CHUNK = 64, /* of the mean size: then a chunk's unused end is 1/128 on average */
    SAMPLES_MAX = 65535,   /* blocks; then bytes and blocks are quartered */
    FREED_PATTERN = 0xdd,
};

char *ps_stack_chunk_start(const struct ps_stack_body *body, const struct ps_stack_chunk *chunk) {
    return chunk == body->first ? body->base.top : (char *)chunk + sizeof *chunk;
}

struct ps_stack_chunk *ps_stack_current(struct ps_stack *stack) {
    struct ps_stack_body *body = stack->body;
    while (body->current->end != stack->end) { /* ends: top lies in a chunk at or before current;
                                                  each step back was once a step forward */
        body->current = body->current->previous;
    }
    return body->current;
}

static void give(struct ps_stack_body *body, struct ps_stack_chunk *chunk) {
    chunk->previous->next = chunk->next;
    if (chunk->next != NULL) {
        chunk->next->previous = chunk->previous;
    }
    size_t bytes = chunk->bytes;
    ps_chunk_give(&body->chunks, chunk, bytes);
}

static bool has_room(const struct ps_stack_body *body, const struct ps_stack_chunk *chunk,
                     size_t bytes, size_t align) {
    uintptr_t start = (uintptr_t)ps_stack_chunk_start(body, chunk);
    uintptr_t at = ps_round_up(start, align);
    uintptr_t end = (uintptr_t)chunk->end;
    return at >= start && at <= end && bytes <= end - at;
}

/* The next spare chunk, if it has room. Too small ones before it are freed, but together no more
 * than the request: a large block must not cost the chunks that many small ones will need. */
static struct ps_stack_chunk *spare_with_room(struct ps_stack *stack, size_t bytes, size_t align) {
    struct ps_stack_body *body = stack->body;
    struct ps_stack_chunk *current = ps_stack_current(stack);
    size_t left = bytes;
    while (current->next != NULL && !has_room(body, current->next, bytes, align)) { /* each once */
        if (current->next->bytes > left) {
            return NULL;
        }
        left -= current->next->bytes;
        give(body, current->next);
    }
    return current->next;
}

static size_t mean_bytes(const struct ps_stack_body *body) {
    return body->sampled_blocks != 0 ? body->sampled_bytes / body->sampled_blocks : 0;
}

static void sample(struct ps_stack_body *body, size_t chunk_bytes, size_t bytes) {
    body->sampled_bytes += chunk_bytes + bytes;
    body->sampled_blocks += chunk_bytes / bytes + 1;
    if (body->sampled_blocks > SAMPLES_MAX) {
        body->sampled_bytes /= 4;
        body->sampled_blocks /= 4;
    }
}

/* Length of the next chunk by the mean, within the cap: without a cap two blocks of 50 MiB
 * led to chunks of 3 GiB. */
static size_t usual_bytes(const struct ps_stack_body *body) {
    const struct ps_chunks *chunks = &body->chunks;
    size_t mean = mean_bytes(body);
    size_t by_mean =
        mean > chunks->max_bytes / BLOCKS_PER_CHUNK ? chunks->max_bytes : mean * BLOCKS_PER_CHUNK;
    return ps_max(chunks->next_bytes, by_mean);
}

/* The oom handler may jump out of here: the stack is closed then if that is its rest. */
static struct ps_stack_chunk *take(struct ps_stack *stack, size_t bytes, size_t align,
                                   size_t wanted) {
    struct ps_chunks *chunks = &stack->body->chunks;
    size_t head = sizeof(struct ps_stack_chunk) + (align > 16 ? align - 16 : 0);
    size_t least;
    if (__builtin_add_overflow(bytes, head + 15, &least) || head > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    least = ps_round_down(least, 16);
    size_t before = chunks->next_bytes;
    size_t usual = usual_bytes(stack->body);
    bool is_growing = wanted > bytes && wanted <= PTRDIFF_MAX && wanted + head > usual;
    ps_stack_leave(stack);
    chunks->next_bytes = is_growing ? wanted + head : usual;
    size_t got = 0;
    struct ps_stack_chunk *chunk = ps_chunk_take(chunks, least, 16, &got);
    if (chunk == NULL || is_growing) {
        chunks->next_bytes = chunk == NULL ? before : usual;
    }
    ps_stack_enter(stack);
    if (chunk != NULL) {
        *chunk = (struct ps_stack_chunk){
            .end = (char *)chunk + ps_round_down(got, 16),
            .bytes = got,
        };
        if (stack->body->mode != PS_STACK_FAST) {
            ps_poison(chunk + 1, got - sizeof *chunk);
        }
    }
    return chunk;
}

bool ps_stack_next_chunk(struct ps_stack *stack, size_t bytes, size_t align, size_t wanted) {
    struct ps_stack_body *body = stack->body;
    struct ps_stack_chunk *current = ps_stack_current(stack);
    struct ps_stack_chunk *chunk = spare_with_room(stack, bytes, align);
    if (chunk == NULL) {
        chunk = take(stack, bytes, align, wanted);
        if (chunk == NULL) {
            return false;
        }
        chunk->previous = current;
        chunk->next = current->next;
        current->next = chunk;
        if (chunk->next != NULL) {
            chunk->next->previous = chunk;
        }
        if (body->chunks.total_bytes > body->retain_bytes) {
            ps_stack_watch_outermost(stack);
        }
    }
    sample(body, (size_t)(current->end - ps_stack_chunk_start(body, current)), bytes);
    chunk->period = body->period;
    current->top = stack->top;
    body->current = chunk;
    stack->top = ps_stack_chunk_start(body, chunk);
    stack->end = chunk->end;
    return true;
}

static void forget(char *from, char *to) {
    memset(from, FREED_PATTERN, (size_t)(to - from));
    ps_poison(from, (size_t)(to - from));
}

void ps_stack_go_back(struct ps_stack *stack, char *top, char *end) {
    if (stack->body->mode == PS_STACK_CHECK) {
        struct ps_stack_chunk *chunk = ps_stack_current(stack);
        char *used = stack->top;
        for (; chunk->end != end; chunk = chunk->previous) { /* ends: `end` is of a chunk before */
            char *start = ps_stack_chunk_start(stack->body, chunk);
            ps_unpoison(start, (size_t)(used - start));
            forget(start, used);
            used = chunk->previous->end;
        }
        ps_unpoison(top, (size_t)(used - top));
        forget(top, used);
    }
    stack->top = top;
    stack->end = end;
}

/* The mark is in the pointer to the frame, so that the inline pop finds another frame innermost. */
void ps_stack_watch_outermost(struct ps_stack *stack) {
    struct ps_stack_frame *base = &stack->body->base;
    struct ps_stack_frame **link = &stack->frame;
    if (ps_stack_frame_of(*link) == base) {
        return;
    }
    while (ps_stack_frame_of(*link)->previous != base) { /* ends: the base is below all */
        link = &ps_stack_frame_of(*link)->previous;
    }
    if (!ps_stack_is_watched(*link)) {
        *link = (struct ps_stack_frame *)(void *)((char *)*link + 1);
    }
}

/* A chunk is returned when a whole period has passed since a block was put in it: a program that
 * needs much memory again and again retains it, whatever the time between. */
static void free_unused(struct ps_stack *stack) {
    struct ps_stack_body *body = stack->body;
    struct ps_stack_chunk *next;
    for (struct ps_stack_chunk *chunk = ps_stack_current(stack)->next; chunk != NULL;
         chunk = next) {
        next = chunk->next;
        if (chunk->period != body->period && body->chunks.total_bytes > body->retain_bytes) {
            give(body, chunk);
        }
    }
    body->period++;
}

void ps_stack_check_when_empty(struct ps_stack *stack) {
    struct ps_stack_body *body = stack->body;
    if (body->chunks.total_bytes <= body->retain_bytes) {
        return;
    }
    uint64_t now_ms = ps_os_now_ms();
    if (now_ms - body->checked_ms >= body->trim_ms) {
        body->checked_ms = now_ms;
        free_unused(stack);
    }
    if (body->chunks.total_bytes > body->retain_bytes) {
        ps_stack_close(stack);
    }
}

size_t ps_stack_trim_to(struct ps_stack *stack, size_t keep_bytes) {
    if (stack->body == NULL) {
        return 0;
    }
    ps_stack_check(stack);
    bool was_closed = stack->frame == PS_STACK_CLOSED;
    struct ps_stack_body *body = ps_stack_enter(stack);
    struct ps_stack_chunk *current = ps_stack_current(stack);
    struct ps_stack_chunk *last = current;
    while (last->next != NULL) { /* the list is finite */
        last = last->next;
    }
    size_t before = body->chunks.total_bytes;
    while (last != current && body->chunks.total_bytes > keep_bytes) {
        last = last->previous;
        give(body, last->next);
    }
    if (last == body->first) { /* returned memory does not lengthen later chunks */
        body->sampled_bytes = 0;
        body->sampled_blocks = 0;
    }
    if (was_closed) {
        ps_stack_close(stack);
    }
    return before - body->chunks.total_bytes;
}

size_t ps_stack_trim(struct ps_stack *stack, size_t keep_bytes) {
    return ps_stack_trim_to(stack, keep_bytes);
}

bool ps_stack_is_of_frame(struct ps_stack *stack, const void *block) {
    struct ps_stack_body *body = stack->body;
    const struct ps_stack_frame *frame = ps_stack_frame_of(stack->frame);
    const struct ps_stack_chunk *chunk = ps_stack_current(stack);
    uintptr_t at = (uintptr_t)block;
    uintptr_t limit = (uintptr_t)stack->top;
    for (; chunk != NULL; chunk = chunk->previous) {
        uintptr_t start = (uintptr_t)ps_stack_chunk_start(body, chunk);
        bool is_last = (uintptr_t)frame - (uintptr_t)chunk < chunk->bytes;
        if (is_last && frame != &body->base) {
            start = (uintptr_t)(frame + 1);
        }
        if (at >= start && at < limit) {
            return true;
        }
        if (is_last) {
            break;
        }
        limit = (uintptr_t)chunk->previous->end;
    }
    return false;
}

bool ps_stack_owns(struct ps_stack *stack, const void *address) {
    if (stack->body == NULL) {
        return false;
    }
    bool was_closed = stack->frame == PS_STACK_CLOSED;
    struct ps_stack_body *body = ps_stack_enter(stack);
    bool is_owned = body->mode == PS_STACK_MALLOC && ps_stack_single_owns(stack, address);
    uintptr_t limit = (uintptr_t)stack->top;
    for (struct ps_stack_chunk *chunk = ps_stack_current(stack); chunk != NULL && !is_owned;
         chunk = chunk->previous) {
        uintptr_t start = (uintptr_t)ps_stack_chunk_start(body, chunk);
        is_owned = (uintptr_t)address >= start && (uintptr_t)address < limit;
        limit = chunk->previous != NULL ? (uintptr_t)chunk->previous->end : 0;
    }
    if (was_closed) {
        ps_stack_close(stack);
    }
    return is_owned;
}

void ps_stack_stats(struct ps_stack *stack, struct ps_stack_stats *stats) {
    *stats = (struct ps_stack_stats){.name = ps_stack_name(stack)};
    if (stack->body == NULL) {
        return;
    }
    bool was_closed = stack->frame == PS_STACK_CLOSED;
    struct ps_stack_body *body = ps_stack_enter(stack);
    struct ps_stack_chunk *current = ps_stack_current(stack);
    stats->held_bytes = body->chunks.total_bytes;
    stats->chunk_count = body->chunks.chunk_count;
    stats->mean_bytes = mean_bytes(body);
    stats->used_bytes = (size_t)(stack->top - ps_stack_chunk_start(body, current));
    for (struct ps_stack_chunk *chunk = current->previous; chunk != NULL; chunk = chunk->previous) {
        stats->used_bytes += (size_t)(chunk->end - ps_stack_chunk_start(body, chunk));
    }
    if (body->mode == PS_STACK_MALLOC) {
        stats->used_bytes = ps_stack_single_bytes(stack);
    }
    for (struct ps_stack_frame *frame = ps_stack_frame_of(stack->frame); frame != &body->base;
         frame = ps_stack_frame_of(frame->previous)) {
        stats->frame_count++;
    }
    if (was_closed) {
        ps_stack_close(stack);
    }
}
