/* SPDX-License-Identifier: MIT */
/*
 * See chunk.h.
 */
#include "pools/common/chunk.h"

#include "pools/common/poison.h"
#include "pools/common/registry.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/watch.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <stdint.h>

/* The page cache allocates whole pages, which are then used. */
static size_t rounded(const struct ps_source *source, size_t bytes) {
    return source == NULL && bytes <= SIZE_MAX - PS_PAGE_BYTES ? ps_round_up(bytes, PS_PAGE_BYTES)
                                                               : bytes;
}

void ps_chunks_init(struct ps_chunks *chunks, const struct ps_chunk_options *options,
                    const char *family, size_t first_bytes, size_t max_bytes) {
    static const struct ps_chunk_options none;
    if (options == NULL) {
        options = &none;
    }
    size_t first = options->first_bytes != 0 ? options->first_bytes : first_bytes;
    size_t max = options->max_bytes != 0 ? options->max_bytes : max_bytes;
    first = rounded(options->source, ps_min(first, max));
    *chunks = (struct ps_chunks){
        .source = options->source,
        .next_bytes = first,
        .max_bytes = rounded(options->source, max),
        .first_bytes = first,
        .oom = options->oom,
        .oom_context = options->oom_context,
        .name = options->name != NULL ? options->name : family,
        .family = family,
    };
}

void ps_chunks_set_growth(struct ps_chunks *chunks, size_t next_bytes, size_t max_bytes) {
    chunks->max_bytes = max_bytes != 0 ? rounded(chunks->source, max_bytes) : chunks->max_bytes;
    size_t first_bytes = next_bytes != 0 ? rounded(chunks->source, next_bytes) : 0;
    chunks->next_bytes =
        ps_min(first_bytes != 0 ? first_bytes : chunks->next_bytes, chunks->max_bytes);
    chunks->first_bytes =
        ps_min(first_bytes != 0 ? first_bytes : chunks->first_bytes, chunks->max_bytes);
}

/* bytes, chunk_count: additions to the pool; subtractions, if they wrap. */
static inline void account(struct ps_chunks *chunks, size_t bytes, size_t chunk_count) {
    chunks->total_bytes += bytes;
    chunks->chunk_count += chunk_count;
    if (PS_UNLIKELY(chunks->record != NULL)) {
        ps_registry_count(chunks->record, bytes, chunk_count);
    }
}

static inline void *from_pages(const struct ps_chunks *chunks, size_t bytes, size_t align) {
    return ps_chunk_pages(chunks->family, chunks->name, bytes, align);
}

static void *from_source(const struct ps_chunks *chunks, size_t bytes, size_t align) {
    if (chunks->source == NULL) {
        return from_pages(chunks, bytes, align);
    }
    const struct ps_pools_watch *watch = ps_watch_now();
    bool is_named = ps_watch_begin(watch, chunks->family, chunks->name, SIZE_MAX);
    void *chunk = chunks->source->alloc(chunks->source, bytes, align);
    if (is_named) {
        watch->chunk_ends();
    }
    return chunk;
}

/* Tries `bytes`, then half as much, and so on down to `least`. *bytes: what it was. */
static void *try_down_to(const struct ps_chunks *chunks, size_t least, size_t align,
                         size_t *bytes) {
    for (;;) { /* ends: halving reaches least */
        void *chunk = from_source(chunks, *bytes, align);
        if (chunk != NULL || *bytes == least) {
            return chunk;
        }
        *bytes = ps_max(*bytes / 2, least);
    }
}

static void *take(struct ps_chunks *chunks, size_t least, size_t align, size_t *bytes) {
    size_t wanted = *bytes;
    for (;;) { /* ends when the handler gives up */
        *bytes = wanted;
        void *chunk = try_down_to(chunks, least, align, bytes);
        if (chunk != NULL) {
            account(chunks, *bytes, 1);
            return chunk;
        }
        if (chunks->oom == NULL || chunks->oom(chunks->oom_context, least) == 0) {
            errno = ENOMEM;
            return NULL;
        }
    }
}

static void double_next(struct ps_chunks *chunks) {
    size_t next = chunks->next_bytes;
    chunks->next_bytes = next > chunks->max_bytes / 2 ? chunks->max_bytes : next * 2;
}

/* Undoes doublings until the next chunk at most doubles what the pool has. A pool that takes and
 * returns the same memory again and again would otherwise end at the cap: 40 rounds of ten objects
 * led from 4 KiB to 2 MiB. */
PS_COLD static void lower_next(struct ps_chunks *chunks, size_t limit) {
    while (chunks->next_bytes > limit) { /* ends: limit >= first_bytes */
        chunks->next_bytes =
            ps_max(rounded(chunks->source, chunks->next_bytes / 2), chunks->first_bytes);
    }
}

/* Longer than usual, from another source than the page cache, or memory is exhausted. */
static PS_NOINLINE void *take_unusual(struct ps_chunks *chunks, size_t least, size_t align,
                                      size_t *bytes) {
    least = rounded(chunks->source, least);
    bool is_usual = least <= chunks->next_bytes;
    *bytes = is_usual ? chunks->next_bytes : least;
    void *chunk = take(chunks, least, align, bytes);
    if (chunk != NULL && is_usual) {
        double_next(chunks);
    }
    return chunk;
}

void *ps_chunk_take(struct ps_chunks *chunks, size_t least, size_t align, size_t *bytes) {
    if (PS_LIKELY(chunks->source == NULL && least <= chunks->next_bytes)) {
        void *chunk = from_pages(chunks, chunks->next_bytes, align);
        if (PS_LIKELY(chunk != NULL)) {
            *bytes = chunks->next_bytes;
            account(chunks, chunks->next_bytes, 1);
            double_next(chunks);
            return chunk;
        }
    }
    return take_unusual(chunks, least, align, bytes);
}

void *ps_chunk_take_exact(struct ps_chunks *chunks, size_t bytes, size_t align) {
    if (PS_LIKELY(chunks->source == NULL)) {
        void *chunk = from_pages(chunks, bytes, align);
        if (PS_LIKELY(chunk != NULL)) {
            account(chunks, bytes, 1);
            return chunk;
        }
    }
    return take(chunks, bytes, align, &bytes);
}

static inline void to_source(struct ps_source *source, void *chunk, size_t bytes) {
    if (source == NULL) {
        ps_pages_free(chunk, bytes);
    } else {
        ps_unpoison(chunk, bytes); /* the source expects no marks of the family */
        source->free(source, chunk, bytes);
    }
}

void ps_chunk_give(struct ps_chunks *chunks, void *chunk, size_t bytes) {
    PS_CHECK(chunks->total_bytes >= bytes && chunks->chunk_count > 0);
    account(chunks, 0 - bytes, SIZE_MAX);
    size_t limit = chunks->total_bytes + chunks->first_bytes;
    if (PS_UNLIKELY(chunks->next_bytes > limit)) {
        lower_next(chunks, limit);
    }
    to_source(chunks->source, chunk, bytes);
}

void ps_chunk_give_last(const struct ps_chunks *chunks, void *chunk, size_t bytes) {
    PS_CHECK(chunks->total_bytes == bytes && chunks->chunk_count == 1);
    to_source(chunks->source, chunk, bytes);
}
