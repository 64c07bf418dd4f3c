/* SPDX-License-Identifier: MIT */
/*
 * The memory of an intrusive pool: its state, its chunks, and the end of both. See intrusive.h.
 * Called by intrusive.c.
 */
#include "pools/common/debug.h"
#include "pools/engine/base/bits.h"
#include "pools/intrusive/intrusive.h"

#include <errno.h>

#define FIRST_BYTES ((size_t)4 << 10)
#define MAX_BYTES ((size_t)8 << 20)

/* A step is never below this: upstream's usual step of 64 objects fits, and a step of one object
 * does not cost a page each. */
#define STEP_BYTES ((size_t)64 << 10)

/* Bytes of a chunk for `items`, with `head` bytes before them; SIZE_MAX on overflow. */
static size_t chunk_bytes(const struct intrusive_pool *pool, size_t head, size_t items) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(items, pool->stride_bytes, &bytes) ||
        __builtin_add_overflow(bytes, ps_round_up(head, pool->options.align), &bytes)) {
        return SIZE_MAX;
    }
    return bytes;
}

/* Bytes before the first object: the chunk's head and, in the first one, the state. */
static size_t head_bytes(const struct intrusive_pool *pool) {
    return pool->first_chunk != NULL
               ? sizeof(struct intrusive_chunk)
               : sizeof(struct intrusive_chunk) + PS_CACHE_LINE + sizeof(struct intrusive_pool);
}

static void append(struct intrusive_pool *pool, struct intrusive_chunk *chunk) {
    if (pool->first_chunk == NULL) {
        pool->first_chunk = chunk;
        pool->chunk_in_use = chunk;
        pool->virgin = chunk->first;
        pool->virgin_count = chunk->count;
    } else {
        pool->last_chunk->next = chunk;
    }
    pool->last_chunk = chunk;
    pool->capacity += chunk->count;
}

/* Steps grow along with the pool: huge pages are had by large chunks only, and 64 KiB at a time
 * made the mixed benchmark of 1 KiB objects a third slower. */
static void lengthen_step(struct intrusive_pool *pool) {
    size_t bytes = ps_min(pool->chunks.total_bytes / 8, MAX_BYTES);
    if (pool->options.step_items != 0 && pool->chunks.max_bytes < bytes) {
        pool->chunks.next_bytes = bytes;
        pool->chunks.max_bytes = bytes;
    }
}

bool ps_intrusive_grow(struct intrusive_pool *pool, size_t least) {
    lengthen_step(pool);
    size_t max = pool->options.max_items != 0 ? pool->options.max_items : SIZE_MAX;
    size_t left = max - pool->capacity;
    least = ps_min(least, left);
    size_t head = head_bytes(pool);
    size_t least_bytes = chunk_bytes(pool, head, ps_max(least, 1));
    size_t left_bytes = chunk_bytes(pool, head, left);
    if (left == 0 || least_bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return false;
    }
    size_t align = ps_max(pool->options.align, PS_CACHE_LINE);
    size_t bytes = least > 0 ? least_bytes : left_bytes;
    bool is_exact = least > 0 || left_bytes < pool->chunks.next_bytes;
    struct intrusive_chunk *chunk =
        is_exact ? ps_chunk_take_exact(&pool->chunks, bytes, align) : NULL;
    if (chunk == NULL && least == 0) { /* the usual length, or less than the last step */
        chunk = ps_chunk_take(&pool->chunks, least_bytes, align, &bytes);
    }
    if (chunk == NULL) {
        return false;
    }
    size_t used = ps_round_up(head, pool->options.align);
    *chunk = (struct intrusive_chunk){
        .bytes = bytes,
        .first = (char *)chunk + used,
        .count = ps_min((bytes - used) / pool->stride_bytes, left),
    };
    append(pool, chunk);
    if (pool->is_checked) {
        ps_poison(chunk->first, bytes - used);
    }
    return true;
}

/* Objects that outlive the pool prevent the end of its state: a state that remains is the leak. */
static const struct ps_family family = {.name = "intrusive", .must_end = true};

struct intrusive_pool *ps_intrusive_state_create(const struct ps_intrusive_options *options) {
    struct ps_chunk_options chunks = options->chunks;
    struct intrusive_pool model = {
        .face = {.hold_count = 1, .last = options->last},
        .options = *options,
        .stride_bytes = options->bytes,
        .is_malloc = ps_debug_is_malloc(),
        .is_checked = ps_debug_is_check() && !ps_debug_is_malloc(),
    };
    model.face.is_slow = options->is_shared != 0 || model.is_malloc || model.is_checked;
    if (options->step_items != 0 && chunks.first_bytes == 0) {
        size_t step = chunk_bytes(&model, head_bytes(&model), options->step_items);
        chunks.first_bytes = ps_max(step, STEP_BYTES);
        chunks.max_bytes = chunks.first_bytes;
    }
    ps_chunks_init(&model.chunks, &chunks, "intrusive pool", FIRST_BYTES, MAX_BYTES);
    if (model.is_malloc) {
        model.x_returned = INTRUSIVE_CLOSED;
    }
    if (!ps_intrusive_grow(&model, model.is_malloc ? 1 : options->reserve_items)) {
        return NULL;
    }
    char *after_head = (char *)(model.first_chunk + 1);
    struct intrusive_pool *pool =
        (struct intrusive_pool *)ps_round_up((uintptr_t)after_head, PS_CACHE_LINE);
    *pool = model;
    ps_registry_note_made(&pool->chunks, pool, &family);
    return pool;
}

void ps_intrusive_each(struct intrusive_pool *pool, ps_intrusive_recycle *visit, void *context) {
    size_t left = pool->touched;
    for (struct intrusive_chunk *chunk = pool->first_chunk; left > 0; chunk = chunk->next) {
        size_t count = ps_min(chunk->count, left);
        for (size_t index = 0; index < count; index++) {
            char *object = chunk->first + index * pool->stride_bytes;
            visit((struct ps_intrusive_item *)(object + pool->options.item_offset), context);
        }
        left -= count;
    }
}

static void end_object(struct ps_intrusive_item *item, void *pool_pointer) {
    const struct intrusive_pool *pool = pool_pointer;
    if (item->is_built != 0) {
        ps_intrusive_unpoison(pool, item);
        pool->options.end(item, pool->options.context);
    }
}

void ps_intrusive_end(struct ps_intrusive_state *state) {
    struct intrusive_pool *pool = intrusive_pool_of(state);
    if (pool->options.end != NULL) {
        ps_intrusive_each(pool, end_object, pool);
    }
    ps_registry_note_ended(&pool->chunks);
    struct ps_chunks chunks = pool->chunks;
    struct intrusive_chunk *next = NULL;
    for (struct intrusive_chunk *chunk = pool->first_chunk; chunk != NULL; chunk = next) {
        next = chunk->next;
        ps_chunk_give(&chunks, chunk, chunk->bytes);
    }
}

void ps_intrusive_poison(const struct intrusive_pool *pool, struct ps_intrusive_item *item) {
    char *object = intrusive_object(pool, item);
    size_t before = pool->options.item_offset;
    ps_poison(object, before);
    ps_poison(item + 1, pool->options.bytes - before - sizeof *item);
}

void ps_intrusive_unpoison(const struct intrusive_pool *pool, struct ps_intrusive_item *item) {
    ps_unpoison_defined(intrusive_object(pool, item), pool->options.bytes);
}
