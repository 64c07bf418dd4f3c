/* SPDX-License-Identifier: MIT */
/*
 * Bounded pools: create and destroy, the slow halves of alloc and free, PS_DEBUG, statistics. See
 * poolshim/bounded.h and bounded.h. No locks.
 */
#include "pools/bounded/bounded.h"
#include "pools/common/thread_number.h"

#include <errno.h>
#include <string.h>

#define ALIGN_MAX ((size_t)4096)
#define SIZE_BYTES_MAX ((size_t)PTRDIFF_MAX / 4)
#define FILL 0xdd

enum { CACHE_ITEMS = 64, CACHE_THREADS = 64, CACHE_PART = 8 };

/* ---- marks of free objects ---- */

/* AddressSanitizer has one mark for this many bytes. Two threads with neighbouring objects would
 * write the mark of shared bytes at once, so shared bytes are never poisoned. */
#define MARK_BYTES 8

static char *object_at(const struct bounded_pool *pool, uint32_t index) {
    return pool->face.objects + (size_t)index * pool->face.stride;
}

static void mark(const struct bounded_pool *pool, const void *object, bool is_hidden) {
    uintptr_t begin = ps_round_up((uintptr_t)object, MARK_BYTES);
    uintptr_t end = ps_round_down((uintptr_t)object + pool->size_bytes, MARK_BYTES);
    if (begin < end) {
        const char *first = (const char *)object + (begin - (uintptr_t)object);
        (is_hidden ? ps_poison : ps_unpoison)(first, end - begin);
    }
}

/* ---- create, destroy ---- */

/* The places at which the parts of the chunk begin. */
struct layout {
    size_t caches;
    size_t objects;
    size_t next;
    size_t down;
    size_t bytes;
};

/* False: it overflows. */
static bool lay_out(struct layout *layout, size_t stride, size_t align, size_t count,
                    size_t cache_count) {
    size_t object_bytes = 0;
    layout->caches = ps_round_up(sizeof(struct bounded_pool), PS_CACHE_LINE);
    size_t cache_end = layout->caches + cache_count * sizeof(struct ps_bounded_cache);
    layout->objects = ps_round_up(cache_end, ps_max(align, PS_CACHE_LINE));
    if (__builtin_mul_overflow(stride, count, &object_bytes) ||
        __builtin_add_overflow(layout->objects, object_bytes, &layout->next) ||
        layout->next >
            (size_t)PTRDIFF_MAX - (size_t)2 * PS_CACHE_LINE - 2 * sizeof(uint32_t) * count) {
        return false;
    }
    layout->next = ps_round_up(layout->next, PS_CACHE_LINE);
    layout->down = layout->next + count * sizeof(uint32_t);
    layout->bytes = layout->down + count * sizeof(uint32_t);
    return true;
}

/* Sets batch_count and cache_count, 0 for none. False: out of range. */
static bool choose_caches(struct bounded_pool *model, const struct ps_bounded_options *options) {
    size_t items = ps_min(CACHE_ITEMS, model->face.count / CACHE_PART);
    items = options->cache_items != 0 ? options->cache_items : items;
    size_t threads = options->threads != 0 ? options->threads : CACHE_THREADS;
    if (options->cache_items == 1 || items > PS_BOUNDED_COUNT_MAX ||
        threads > PS_THREAD_NUMBER_MAX) {
        return false;
    }
    bool has_caches = !options->is_exact && items >= 2 && !model->is_malloc;
    model->face.batch_count = (uint32_t)ps_max(items / 2, 1);
    model->face.cache_count = has_caches ? (uint32_t)threads : 0;
    model->face.inline_cache_count = model->is_checked ? 0 : model->face.cache_count;
    return true;
}

/* The pool in its chunk. */
static struct bounded_pool *build(struct bounded_pool *model, size_t align) {
    struct layout layout;
    size_t placed_count = model->is_malloc ? 0 : model->face.count;
    if (!lay_out(&layout, model->face.stride, align, placed_count, model->face.cache_count)) {
        errno = ENOMEM;
        return NULL;
    }
    size_t chunk_align = ps_max(align, PS_CACHE_LINE);
    char *chunk = (char *)ps_chunk_take_exact(&model->chunks, layout.bytes, chunk_align);
    if (chunk == NULL) {
        return NULL;
    }
    model->chunk_bytes = layout.bytes;
    model->face.caches = (struct ps_bounded_cache *)(void *)(chunk + layout.caches);
    model->face.objects = chunk + layout.objects;
    model->face.x_next = (uint32_t *)(void *)(chunk + layout.next);
    model->x_down = (uint32_t *)(void *)(chunk + layout.down);
    for (uint32_t index = 0; index < model->face.cache_count; index++) {
        model->face.caches[index] = (struct ps_bounded_cache){BOUNDED_EMPTY, BOUNDED_EMPTY, {0}};
    }
    for (size_t index = 0; model->is_checked && index < placed_count; index++) {
        mark(model, object_at(model, (uint32_t)index), true);
    }
    struct bounded_pool *pool = (struct bounded_pool *)(void *)chunk;
    *pool = *model;
    return pool;
}

static size_t live(void *pool, size_t *bytes) {
    struct ps_bounded_stats stats;
    ps_bounded_stats((struct ps_bounded *)pool, &stats);
    *bytes = stats.used_count * stats.size_bytes;
    return stats.used_count;
}

static const struct ps_family family = {.name = "bounded", .live = live, .must_end = true};

struct ps_bounded *ps_bounded_create(size_t size, size_t align, size_t count,
                                     const struct ps_bounded_options *options) {
    static const struct ps_bounded_options none;
    options = options != NULL ? options : &none;
    size = ps_max(size, 1);
    align = align != 0 ? align : ps_min(size & (0 - size), PS_ALIGN_DEFAULT);
    struct bounded_pool model = {
        .size_bytes = size,
        .is_malloc = ps_debug_is_malloc(),
        .is_checked = ps_debug_is_check() && !ps_debug_is_malloc(),
        .x_batches = BOUNDED_EMPTY,
        .x_singles = BOUNDED_EMPTY,
    };
    model.face.count = (uint32_t)count;
    if (!ps_is_power_of_two(align) || align > ALIGN_MAX || size > SIZE_BYTES_MAX || count == 0 ||
        count > PS_BOUNDED_COUNT_MAX || !choose_caches(&model, options)) {
        errno = EINVAL;
        return NULL;
    }
    size_t stride = ps_round_up(size, align);
    model.face.stride = model.is_malloc ? align : stride;
    model.face.reciprocal = stride >> 31 == 0 ? (((uint64_t)1 << 63) - 1) / stride + 1 : 0;
    struct ps_chunk_options chunks = options->chunks;
    if (model.is_malloc) {
        chunks.source = ps_source_malloc();
    }
    chunks.oom = NULL;
    ps_chunks_init(&model.chunks, &chunks, "bounded pool", PS_CACHE_LINE, PS_CACHE_LINE);
    struct bounded_pool *pool = build(&model, align);
    if (pool != NULL) {
        ps_registry_note_made(&pool->chunks, pool, &family);
    }
    return (struct ps_bounded *)pool;
}

bool ps_bounded_enlist(struct ps_bounded *face) {
    struct bounded_pool *pool = bounded_pool_of(face);
    return ps_registry_enter(&pool->chunks, pool, &family);
}

void ps_bounded_destroy(struct ps_bounded *face) {
    if (face == NULL) {
        return;
    }
    int saved_errno = errno;
    ps_registry_note_ended(&bounded_pool_of(face)->chunks);
    struct ps_chunks chunks = bounded_pool_of(face)->chunks;
    ps_chunk_give(&chunks, face, bounded_pool_of(face)->chunk_bytes);
    errno = saved_errno;
}

/* ---- PS_DEBUG=malloc ---- */

static void *alloc_block(struct bounded_pool *pool) {
    uint64_t used = ps_load_relaxed(&pool->x_touched); /* relaxed, all: a count */
    do {                                               /* ends: as any counter's */
        if (used >= pool->face.count) {
            return NULL;
        }
    } while (!ps_cas_weak_relaxed(&pool->x_touched, &used, used + 1));
    struct ps_source *source = ps_source_malloc();
    void *block = source->alloc(source, pool->size_bytes, pool->face.stride);
    if (block == NULL) {
        ps_add_relaxed(&pool->x_touched, UINT64_MAX);
    }
    return block;
}

static void free_block(struct bounded_pool *pool, void *block) {
    struct ps_source *source = ps_source_malloc();
    source->free(source, block, pool->size_bytes);
    ps_add_relaxed(&pool->x_touched, UINT64_MAX); /* relaxed: a count */
}

/* ---- alloc, free ---- */

void *ps_bounded_alloc_slow(struct ps_bounded *face) {
    struct bounded_pool *pool = bounded_pool_of(face);
    if (pool->is_malloc) {
        void *block = alloc_block(pool);
        if (block == NULL) {
            errno = ENOMEM;
        }
        return block;
    }
    uint32_t index = ps_bounded_cache_take(pool, ps_bounded_cache_own(pool));
    if (index == PS_BOUNDED_NONE) {
        errno = ENOMEM;
        return NULL;
    }
    bounded_set_next(pool, index, PS_BOUNDED_IN_USE);
    char *object = object_at(pool, index);
    if (pool->is_checked) {
        mark(pool, object, false);
    }
    return object;
}

/* The number of an object that is in use; ends the program if it is none. */
static uint32_t index_of(const struct bounded_pool *pool, const void *object) {
    size_t offset = (size_t)((uintptr_t)object - (uintptr_t)pool->face.objects);
    size_t index = offset / pool->face.stride;
    /* relaxed: other threads take objects that are not in question here. */
    if (index >= pool->face.count || index >= ps_load_relaxed(&pool->x_touched)) {
        ps_debug_misuse("free of a foreign pointer", object, pool->chunks.name);
    }
    if (offset != index * pool->face.stride) {
        ps_debug_misuse("free of a pointer into an object", object, pool->chunks.name);
    }
    if (bounded_next(pool, (uint32_t)index) != PS_BOUNDED_IN_USE) {
        ps_debug_misuse("double free of", object, pool->chunks.name);
    }
    return (uint32_t)index;
}

void ps_bounded_free_slow(struct ps_bounded *face, void *object) {
    struct bounded_pool *pool = bounded_pool_of(face);
    if (object == NULL) {
        return;
    }
    int saved_errno = errno;
    if (pool->is_malloc) {
        free_block(pool, object);
    } else {
        uint32_t index = index_of(pool, object);
        if (pool->is_checked) {
            memset(object, FILL, pool->size_bytes);
            mark(pool, object, true);
        }
        ps_bounded_cache_put(pool, ps_bounded_cache_own(pool), index);
    }
    errno = saved_errno;
}

void ps_bounded_flush(struct ps_bounded *face) {
    struct bounded_pool *pool = bounded_pool_of(face);
    struct ps_bounded_cache *cache = ps_bounded_cache_own(pool);
    if (cache != NULL) {
        ps_bounded_cache_flush(pool, cache);
    }
}

/* ---- statistics ---- */

/* Objects ever allocated or cached by a thread. */
static size_t touched_of(struct bounded_pool *pool) {
    return ps_min(ps_load_relaxed(&pool->x_touched), pool->face.count); /* relaxed: a count */
}

void ps_bounded_stats(struct ps_bounded *face, struct ps_bounded_stats *stats) {
    struct bounded_pool *pool = bounded_pool_of(face);
    size_t touched = touched_of(pool);
    size_t used = pool->is_malloc ? touched : 0;
    for (size_t index = 0; !pool->is_malloc && index < touched; index++) {
        used += bounded_next(pool, (uint32_t)index) == PS_BOUNDED_IN_USE;
    }
    *stats = (struct ps_bounded_stats){
        .name = pool->chunks.name,
        .size_bytes = pool->size_bytes,
        .stride_bytes = pool->face.stride,
        .count = face->count,
        .used_count = used,
        .touched_count = touched,
        .cache_items = face->cache_count != 0 ? (size_t)face->batch_count * 2 : 0,
        .total_bytes = pool->chunks.total_bytes,
    };
}

/* Length of a list of free objects that ends with NONE; SIZE_MAX: it leads elsewhere. */
static size_t length_of(struct bounded_pool *pool, uint32_t first, size_t touched) {
    size_t length = 0;
    for (uint32_t index = first; index != PS_BOUNDED_NONE; length++) {
        if (index >= touched || length >= touched) {
            return SIZE_MAX;
        }
        index = bounded_next(pool, index);
    }
    return length;
}

bool ps_bounded_check(struct ps_bounded *face) {
    struct bounded_pool *pool = bounded_pool_of(face);
    if (pool->is_malloc) {
        return true;
    }
    size_t touched = touched_of(pool);
    struct ps_bounded_stats stats;
    ps_bounded_stats(face, &stats);
    /* acquire, all: so that what other threads did before is visible here, as it must be to a
     * caller that knows them to be elsewhere. */
    size_t total = length_of(pool, (uint32_t)ps_load_acquire(&pool->x_singles), touched);
    size_t batches = 0;
    for (uint32_t first = (uint32_t)ps_load_acquire(&pool->x_batches); first != PS_BOUNDED_NONE;
         first = ps_load_relaxed(&pool->x_down[first])) { /* relaxed: as above */
        if (first >= touched || batches > touched ||
            length_of(pool, first, touched) != face->batch_count) {
            return false;
        }
        batches++;
    }
    total += batches * face->batch_count;
    for (uint32_t number = 0; number < face->cache_count; number++) {
        const struct ps_bounded_cache *cache = &face->caches[number];
        uint64_t lists[2] = {ps_load_acquire(&cache->x_first), ps_load_acquire(&cache->x_second)};
        for (size_t i = 0; i < 2; i++) {
            size_t length = length_of(pool, (uint32_t)lists[i], touched);
            if (length != lists[i] >> 32) {
                return false;
            }
            total += length;
        }
    }
    return total + stats.used_count == touched;
}
