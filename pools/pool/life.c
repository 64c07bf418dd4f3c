/* SPDX-License-Identifier: MIT */
/*
 * Pools of objects of one size: from init to destroy, giving memory back, statistics. None of it is
 * hot, but init and destroy of a small pool. No locks.
 */
#include "pools/pool/pool.h"

#include <errno.h>
#include <poolshim/pages.h>

enum {
    FIRST_OBJECTS = 16,
    LARGE_OBJECTS = 8, /* the longest chunk has room for at least this many of them */
};
#define FIRST_BYTES_MAX ((size_t)64 << 10)
#define MAX_BYTES ((size_t)2 << 20)
#define SIZE_BYTES_MAX ((size_t)PTRDIFF_MAX / 4)

static void choose_kind(struct ps_pool *pool, bool is_ordered, bool is_unchecked) {
    bool is_small = pool->stride < sizeof(struct ps_pool_link);
    pool->is_ordered = is_ordered;
    pool->push_above = UINTPTR_MAX;
    pool->has_arrays = is_ordered || !is_small;
    if (ps_debug_is_malloc() && !is_unchecked) {
        pool->kind = PS_POOL_HEAP;
    } else if (ps_debug_is_check() && !is_unchecked) {
        pool->kind = PS_POOL_CHECKED;
    } else if (is_ordered) {
        pool->kind = PS_POOL_MAP;
        pool->has_links = !is_small;
        pool->push_below = !is_small;
    } else {
        pool->kind = is_small ? PS_POOL_TINY : PS_POOL_LIST;
        pool->has_links = !is_small;
        pool->push_above = is_small ? UINTPTR_MAX : 0;
    }
}

/* Clears all references to chunks. */
static void forget_chunks(struct ps_pool *pool) {
    pool->chunks = NULL;
    pool->recent = NULL;
    pool->current = NULL;
    pool->room_first = NULL;
    pool->room_last = NULL;
    pool->free = NULL;
    pool->bump = NULL;
    pool->end = NULL;
    pool->uncarved_count = pool->max_items != 0 ? pool->max_items : SIZE_MAX;
}

/* Everything of *pool but its growth. */
static bool shape(struct ps_pool *pool, size_t size, size_t align,
                  const struct ps_pool_options *options) {
    size = ps_max(size, 1);
    if (align == 0) {
        align = ps_min(size & (0 - size), PS_ALIGN_DEFAULT);
    }
    bool is_ordered = options != NULL && options->is_ordered;
    bool is_unchecked = options != NULL && options->is_unchecked;
    if (!ps_is_power_of_two(align) || align > PS_POOL_ALIGN_MAX || size > SIZE_BYTES_MAX ||
        (is_ordered && is_unchecked)) {
        errno = EINVAL;
        return false;
    }
    size_t stride = ps_round_up(size, align);
    if (is_unchecked) { /* no tiny objects */
        stride = ps_max(stride, sizeof(struct ps_pool_link));
    }
    if (stride > sizeof(struct ps_pool_link)) {
        align = ps_max(align, sizeof(struct ps_pool_link));
        stride = ps_round_up(size, align);
    }
    *pool = (struct ps_pool){
        .stride = stride,
        .align = align,
        .size_bytes = size,
        .max_items = options != NULL ? options->max_items : 0,
        .reciprocal = stride >> 31 == 0 ? (((uint64_t)1 << 63) - 1) / stride + 1 : 0,
    };
    forget_chunks(pool);
    choose_kind(pool, is_ordered, is_unchecked);
    return true;
}

static size_t bytes_for(const struct ps_pool *pool, size_t count) {
    size_t bytes = pool->kind == PS_POOL_HEAP ? count * pool->stride
                                              : ps_pool_actions_of(pool)->bytes_for(pool, count);
    return bytes <= SIZE_MAX - PS_PAGE_BYTES ? ps_round_up(bytes, PS_PAGE_BYTES) : 0;
}

bool ps_pool_init_part(struct ps_pool *pool, size_t size, size_t align,
                       const struct ps_pool_options *options) {
    if (!shape(pool, size, align, options)) {
        return false;
    }
    size_t first = ps_max(ps_min(bytes_for(pool, FIRST_OBJECTS), FIRST_BYTES_MAX), PS_PAGE_BYTES);
    ps_chunks_init(ps_pool_growth(pool), options != NULL ? &options->chunks : NULL, "pool", first,
                   ps_max(MAX_BYTES, bytes_for(pool, LARGE_OBJECTS)));
    if (ps_pool_is_checked(pool)) {
        ps_mempool_create(pool);
    }
    return true;
}

static size_t live(void *pool, size_t *bytes) {
    struct ps_pool_stats stats;
    ps_pool_stats((struct ps_pool *)pool, &stats);
    *bytes = stats.used_count * stats.size_bytes;
    return stats.used_count;
}

static const struct ps_family family = {.name = "pool", .live = live};

bool ps_pool_init(struct ps_pool *pool, size_t size, size_t align,
                  const struct ps_pool_options *options) {
    if (!ps_pool_init_part(pool, size, align, options)) {
        return false;
    }
    ps_registry_note_made(ps_pool_growth(pool), pool, &family);
    return true;
}

bool ps_pool_enlist(struct ps_pool *pool) {
    return ps_registry_enter(ps_pool_growth(pool), pool, &family);
}

size_t ps_pool_chunk_bytes(size_t size, size_t align, size_t count,
                           const struct ps_pool_options *options) {
    struct ps_pool pool;
    return shape(&pool, size, align, options) ? bytes_for(&pool, ps_max(count, 1)) : 0;
}

static void give(struct ps_pool *pool, struct ps_pool_chunk *chunk) {
    ps_chunk_give(ps_pool_growth(pool), chunk, chunk->bytes);
}

/* Returns all chunks but `spared`, which is then on no list. */
static void give_all_but(struct ps_pool *pool, const struct ps_pool_chunk *spared) {
    struct ps_pool_chunk *next;
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        if (chunk != spared) {
            give(pool, chunk);
        }
    }
    ps_pool_table_drop(pool);
    ps_pool_runs_drop(pool);
    ps_pool_heap_free_all(pool);
    forget_chunks(pool);
}

void ps_pool_move(struct ps_pool *to, struct ps_pool *from) {
    *to = *from;
    struct ps_chunks *growth = ps_pool_growth(from);
    if (ps_pool_is_checked(from)) {
        ps_mempool_move(from, to);
    }
    if (PS_UNLIKELY(growth->record != NULL)) {
        ps_registry_move(ps_pool_growth(to), growth, to);
    }
    growth->total_bytes = 0;
    growth->chunk_count = 0;
    growth->next_bytes = growth->first_bytes;
    from->table = NULL;
    from->table_size = 0;
    from->table_used = 0;
    from->runs = NULL;
    from->blocks = NULL;
    from->block_count = 0;
    forget_chunks(from);
}

void ps_pool_destroy(struct ps_pool *pool) {
    int saved_errno = errno;
    ps_registry_note_ended(ps_pool_growth(pool));
    if (ps_pool_is_checked(pool)) {
        ps_mempool_destroy(pool);
    }
    ps_pool_growth(pool)->next_bytes = 0; /* not lowered step by step */
    give_all_but(pool, NULL);
    errno = saved_errno;
}

/* Enters chunks without objects into the pool, as new ones: their objects are on no list. */
static void build_anew(struct ps_pool *pool, struct ps_pool_chunk *chunks) {
    struct ps_pool_chunk *next;
    for (struct ps_pool_chunk *chunk = chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        size_t bytes = chunk->bytes;
        ps_unpoison(chunk, bytes);
        ps_pool_actions_of(pool)->build(pool, chunk, bytes);
    }
}

void ps_pool_reset(struct ps_pool *pool) {
    int saved_errno = errno;
    struct ps_pool_chunk *largest = pool->chunks;
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        largest = chunk->bytes > largest->bytes ? chunk : largest;
    }
    if (ps_pool_is_checked(pool)) {
        ps_mempool_create(pool); /* anew: no object is live */
    }
    struct ps_chunks *growth = ps_pool_growth(pool);
    size_t next_bytes = growth->next_bytes;
    give_all_but(pool, largest);
    if (largest != NULL) {
        /* The next round takes a chunk twice as long if this one is too short, until one is enough:
         * then no round calls the source. */
        growth->next_bytes = ps_max(growth->next_bytes, ps_min(next_bytes, 2 * largest->bytes));
        largest->next = NULL;
        build_anew(pool, largest);
    }
    errno = saved_errno;
}

/* All chunks together; afterwards no chunk is current, and `sum` is right for each. */
static struct ps_pool_sum settle_and_sum(struct ps_pool *pool) {
    struct ps_pool_sum all = {0};
    if (pool->kind == PS_POOL_HEAP) {
        return (struct ps_pool_sum){pool->block_count, pool->block_count, 0};
    }
    const struct ps_pool_actions *actions = ps_pool_actions_of(pool);
    ps_pool_settle(pool);
    actions->count(pool);
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        struct ps_pool_sum sum;
        actions->sum(pool, chunk, &sum);
        all.capacity += sum.capacity;
        all.carved += sum.carved;
        all.free_count += sum.free_count;
    }
    return all;
}

static size_t available(const struct ps_pool *pool, struct ps_pool_sum all) {
    return all.free_count + ps_min(all.capacity - all.carved, pool->uncarved_count);
}

bool ps_pool_reserve(struct ps_pool *pool, size_t count) {
    struct ps_pool_sum all = settle_and_sum(pool);
    size_t have = available(pool, all);
    if (count <= have || (pool->kind == PS_POOL_HEAP && count <= pool->uncarved_count)) {
        return true;
    }
    if (count - all.free_count > pool->uncarved_count) {
        errno = ENOMEM;
        return false;
    }
    return ps_pool_grow(pool, count - have);
}

size_t ps_pool_trim_empty(struct ps_pool *pool, size_t *keep_bytes) {
    if (pool->kind == PS_POOL_HEAP) {
        return 0;
    }
    int saved_errno = errno;
    const struct ps_pool_actions *actions = ps_pool_actions_of(pool);
    size_t before_bytes = ps_pool_growth(pool)->total_bytes;
    settle_and_sum(pool);
    actions->forget_drained(pool);
    pool->recent = NULL;
    bool is_any = false;
    struct ps_pool_chunk *kept = NULL;
    for (struct ps_pool_chunk **link = &pool->chunks; *link != NULL;) {
        struct ps_pool_chunk *chunk = *link;
        struct ps_pool_sum sum;
        actions->sum(pool, chunk, &sum);
        if (sum.free_count != sum.carved) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        pool->uncarved_count += sum.carved;
        is_any = true;
        if (chunk->is_in_room) {
            ps_pool_room_remove(pool, chunk);
        }
        if (chunk->bytes <= *keep_bytes) {
            *keep_bytes -= chunk->bytes;
            chunk->next = kept;
            kept = chunk;
        } else {
            give(pool, chunk);
        }
    }
    if (is_any) {
        ps_pool_table_rebuild(pool);
    }
    build_anew(pool, kept);
    errno = saved_errno;
    /* With the table: a new one may be longer where there was no memory for the old one. */
    return before_bytes - ps_min(ps_pool_growth(pool)->total_bytes, before_bytes);
}

size_t ps_pool_trim_to(struct ps_pool *pool, size_t keep_bytes) {
    return ps_pool_trim_empty(pool, &keep_bytes);
}

size_t ps_pool_trim(struct ps_pool *pool) { return ps_pool_trim_to(pool, 0); }

bool ps_pool_owns(struct ps_pool *pool, const void *address) {
    if (pool->kind == PS_POOL_HEAP) {
        return ps_pool_heap_owns(pool, address);
    }
    const struct ps_pool_chunk *chunk = ps_pool_find(pool, address);
    if (chunk == NULL || pool->kind == PS_POOL_TINY) {
        return chunk != NULL && ps_pool_tiny_owns(pool, address);
    }
    return (uintptr_t)address - (uintptr_t)chunk->nodes < chunk->capacity * pool->stride;
}

bool ps_pool_each(struct ps_pool *pool, void (*visit)(void *object, void *context), void *context) {
    if (!pool->is_ordered) {
        errno = EINVAL;
        return false;
    }
    if (pool->kind == PS_POOL_HEAP) {
        ps_pool_heap_each(pool, visit, context);
    } else {
        ps_pool_map_each(pool, visit, context);
    }
    return true;
}

void ps_pool_stats(struct ps_pool *pool, struct ps_pool_stats *stats) {
    const struct ps_chunks *growth = ps_pool_growth(pool);
    struct ps_pool_sum all = settle_and_sum(pool);
    *stats = (struct ps_pool_stats){
        .name = growth->name,
        .size_bytes = pool->size_bytes,
        .stride_bytes = pool->stride,
        .used_count = all.carved - all.free_count,
        .free_count = available(pool, all),
        .chunk_count = growth->chunk_count,
        .total_bytes = growth->total_bytes + pool->block_count * pool->stride,
        .next_bytes = growth->next_bytes,
        .max_bytes = growth->max_bytes,
        .max_items = pool->max_items,
    };
}
