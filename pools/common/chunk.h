/* SPDX-License-Identifier: MIT */
/*
 * Chunks: what a pool takes from its source, in lengths that double up to a cap. Every family grows
 * by this one file. A pool embeds a struct ps_chunks; one thread at a time, as for the pool.
 * Callers: the families. Calls source.c, pages.h.
 *
 *   total_bytes == sum of the lengths of all chunks taken and not returned
 *   after each return of a chunk, next_bytes <= total_bytes + first_bytes: growth does not outlive
 *   the memory that it was for
 */
#ifndef PS_COMMON_CHUNK_H
#define PS_COMMON_CHUNK_H

#include "pools/engine/page/watch.h"

#include <poolshim/pages.h>
#include <poolshim/source.h>

struct ps_record;

struct ps_chunks {
    struct ps_source *source; /* NULL: the page cache, called directly */
    size_t next_bytes;        /* length of the next chunk, if no more is needed */
    size_t max_bytes;
    size_t first_bytes; /* of a pool without memory */
    ps_oom_handler *oom;
    void *oom_context;
    const char *name;
    size_t total_bytes;
    size_t chunk_count;
    struct ps_record *record; /* registry.h; NULL: the pool is not listed */
    const char *family;       /* a constant; its name where the program gave none */
};

/* Allocates pages for a pool, as ps_pages_alloc. name: NULL: it has none. Inline: a region is made
 * and destroyed in each request of a server. */
static inline void *ps_chunk_pages(const char *family, const char *name, size_t bytes,
                                   size_t align) {
    const struct ps_pools_watch *watch = ps_watch_now();
    if (PS_LIKELY(!ps_watch_begin(watch, family, name, bytes))) {
        return ps_pages_alloc(bytes, align);
    }
    void *pages = ps_pages_alloc(bytes, align);
    watch->chunk_ends();
    return pages;
}

/* options may be NULL. first_bytes, max_bytes: the family's defaults for what options leave 0. */
void ps_chunks_init(struct ps_chunks *chunks, const struct ps_chunk_options *options,
                    const char *family, size_t first_bytes, size_t max_bytes);

/* Changes the length of the next chunk, which is then that of a pool without memory too, and the
 * cap, where 0 changes nothing; the next chunk is at most as long as the cap. */
void ps_chunks_set_growth(struct ps_chunks *chunks, size_t next_bytes, size_t max_bytes);

/*
 * Takes a chunk of at least `least` bytes, aligned to `align` (at most 64 KiB; a chunk from the
 * page cache is page-aligned anyway). *bytes: its length, which ps_chunk_give needs. Usually
 * next_bytes, which then doubles; longer when least requires it, and then next_bytes does not
 * change. When the source refuses, half the length is tried, and so on down to `least`; then the
 * oom handler is called. NULL with errno ENOMEM; nothing has changed. Overflow in `least` is for
 * the caller to check.
 */
void *ps_chunk_take(struct ps_chunks *chunks, size_t least, size_t align, size_t *bytes);

/* Takes exactly `bytes`: no doubling, no halving. For huge blocks. */
void *ps_chunk_take_exact(struct ps_chunks *chunks, size_t bytes, size_t align);

/* Returns a chunk, lowers next_bytes to what the rest of the pool justifies, and removes the marks
 * of poison.h from the chunk. The caller must not: without its mark the chunk's own header is
 * undefined for memcheck, and the arguments are usually read from there. */
void ps_chunk_give(struct ps_chunks *chunks, void *chunk, size_t bytes);

/* The same for the last chunk, in which the struct may lie: it is not used any more. */
void ps_chunk_give_last(const struct ps_chunks *chunks, void *chunk, size_t bytes);

#endif
