/* SPDX-License-Identifier: MIT */
/*
 * The chunks of a fifo: taken, cached while drained, returned. Callers: fifo.c. Calls pools/common.
 * No locks: one thread at a time per fifo.
 */
#include "pools/fifo/fifo.h"

#include <errno.h>
#include <poolshim/pages.h>

/* Limit of the search for a spare chunk with room for a large block. */
#define SPARES_TRIED 8

struct ps_fifo_chunk *ps_fifo_chunk_format(struct fifo *fifo, void *base, size_t bytes,
                                           size_t offset) {
    struct ps_fifo_chunk *chunk = (void *)((char *)base + offset);
    char *start = (char *)(chunk + 1);
    char *end = (char *)base + bytes;
    if (!fifo->is_malloc) {
        end = (char *)ps_round_down((uintptr_t)end, PS_ALIGN_DEFAULT);
    }
    *chunk = (struct ps_fifo_chunk){
        .top = start, .start = start, .end = end, .bytes = bytes, .base = base};
    if (is_checked(fifo)) {
        ps_poison(start, (size_t)(end - start));
    }
    return chunk;
}

void ps_fifo_chunk_link(struct fifo *fifo, struct ps_fifo_chunk *chunk) {
    chunk->previous = fifo->all.previous;
    chunk->next = &fifo->all;
    chunk->previous->next = chunk;
    fifo->all.previous = chunk;
}

void ps_fifo_chunk_unlink(struct ps_fifo_chunk *chunk) {
    chunk->previous->next = chunk->next;
    chunk->next->previous = chunk->previous;
    chunk->previous = NULL;
    chunk->next = NULL;
}

void ps_fifo_chunk_give(struct fifo *fifo, struct ps_fifo_chunk *chunk) {
    ps_chunk_give(&fifo->chunks, chunk->base, chunk->bytes);
}

static struct ps_fifo_chunk *pop_spare(struct fifo *fifo, struct ps_fifo_chunk **link) {
    struct ps_fifo_chunk *chunk = *link;
    *link = chunk->next;
    chunk->next = NULL;
    fifo->spare_bytes -= chunk->bytes;
    return chunk;
}

void ps_fifo_chunk_trim(struct fifo *fifo, size_t keep_bytes) {
    while (fifo->spare_bytes > keep_bytes) {
        ps_fifo_chunk_give(fifo, pop_spare(fifo, &fifo->spares));
    }
}

/* When there are too many, the longer ones are retained: blocks that become larger each time would
 * otherwise never find a spare chunk. */
void ps_fifo_chunk_keep(struct fifo *fifo, struct ps_fifo_chunk *chunk) {
    chunk->top = chunk->start;
    size_t max = fifo->is_malloc ? 0 : fifo->spare_max_bytes;
    if (chunk->bytes > max) {
        ps_fifo_chunk_give(fifo, chunk);
        return;
    }
    while (chunk->bytes > max - fifo->spare_bytes) {
        if (fifo->spares->bytes >= chunk->bytes) {
            ps_fifo_chunk_give(fifo, chunk);
            return;
        }
        ps_fifo_chunk_give(fifo, pop_spare(fifo, &fifo->spares));
    }
    chunk->next = fifo->spares;
    fifo->spares = chunk;
    fifo->spare_bytes += chunk->bytes;
}

/* A spare chunk of at most max_bytes in which the block fits. */
static struct ps_fifo_chunk *find_spare(struct fifo *fifo, size_t bytes, size_t align,
                                        size_t max_bytes) {
    struct ps_fifo_chunk **link = &fifo->spares;
    for (int tried = 0; tried < SPARES_TRIED && *link != NULL; tried++) {
        struct ps_fifo_chunk *chunk = *link;
        if (chunk->bytes <= max_bytes &&
            ps_fifo_place(fifo, chunk->start, chunk->end, bytes, align) != NULL) {
            return pop_spare(fifo, link);
        }
        link = &chunk->next;
    }
    return NULL;
}

/* The place of the first block in a chunk. */
static size_t first_block(const struct fifo *fifo, size_t align) {
    return ps_round_up(sizeof(struct ps_fifo_chunk) + fifo->prefix_bytes, align);
}

struct ps_fifo_chunk *ps_fifo_chunk_usual(struct fifo *fifo, size_t bytes, size_t align) {
    struct ps_fifo_chunk *home = fifo->home;
    if (home != fifo->hot.current && home->live_count == 0 &&
        ps_fifo_place(fifo, home->start, home->end, bytes, align) != NULL) {
        home->top = home->start;
        return home;
    }
    struct ps_fifo_chunk *chunk = find_spare(fifo, bytes, align, fifo->align_max);
    if (chunk == NULL) {
        size_t chunk_bytes;
        size_t least =
            ps_round_up(first_block(fifo, align) + bytes + fifo->tail_bytes, PS_ALIGN_DEFAULT);
        void *base = ps_chunk_take(&fifo->chunks, least, fifo->align_max, &chunk_bytes);
        chunk = base != NULL ? ps_fifo_chunk_format(fifo, base, chunk_bytes, 0) : NULL;
    }
    return chunk;
}

struct ps_fifo_chunk *ps_fifo_chunk_large(struct fifo *fifo, size_t bytes, size_t align) {
    size_t first = first_block(fifo, align);
    if (fifo->is_malloc) {
        void *base = ps_chunk_take_exact(&fifo->chunks, first + bytes, align);
        size_t offset = first - fifo->prefix_bytes - sizeof(struct ps_fifo_chunk);
        return base != NULL ? ps_fifo_chunk_format(fifo, base, first + bytes, offset) : NULL;
    }
    size_t least = ps_round_up(first + bytes + fifo->tail_bytes, PS_PAGE_BYTES);
    struct ps_fifo_chunk *chunk = find_spare(fifo, bytes, align, least * 2);
    if (chunk == NULL) {
        void *base = ps_chunk_take_exact(&fifo->chunks, least, fifo->align_max);
        chunk = base != NULL ? ps_fifo_chunk_format(fifo, base, least, 0) : NULL;
    }
    return chunk;
}
