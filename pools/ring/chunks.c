/* SPDX-License-Identifier: MIT */
/*
 * The chunks of a ring: taken, put in order, cached while drained, returned. Callers: ring.c,
 * rewind.c, release.c. Calls pools/common. No locks: the owner calls all but
 * ps_ring_chunk_give_alone.
 */
#include "pools/ring/ring.h"

#include <poolshim/pages.h>

/* Limit of the search for a spare chunk. */
#define SPARES_TRIED 8

struct ps_ring_chunk *ps_ring_chunk_format(struct ring *ring, void *base, size_t bytes) {
    struct ps_ring_chunk *chunk = base;
    char *end = (char *)base + bytes;
    *chunk = (struct ps_ring_chunk){
        .top = (char *)(chunk + 1),
        .start = (char *)(chunk + 1),
        .end = ring->is_malloc ? end : (char *)ps_round_down((uintptr_t)end, PS_ALIGN_DEFAULT),
        .ring = ring,
        .bytes = bytes,
        .base = base,
    };
    if (ring->is_checked) {
        ps_poison(chunk->start, (size_t)(chunk->end - chunk->start));
    }
    return chunk;
}

void ps_ring_chunk_give_alone(const struct ring *ring, struct ps_ring_chunk *chunk) {
    /* The ring's account belongs to the owner's thread, or to none any more. */
    struct ps_chunks account = {
        .source = ring->chunks.source,
        .name = ring->chunks.name,
        .total_bytes = chunk->bytes,
        .chunk_count = 1,
    };
    ps_chunk_give(&account, chunk->base, chunk->bytes);
}

static void give(struct ring *ring, struct ps_ring_chunk *chunk) {
    ps_chunk_give(&ring->chunks, chunk->base, chunk->bytes);
}

static struct ps_ring_chunk *pop_spare(struct ring *ring, struct ps_ring_chunk **link) {
    struct ps_ring_chunk *chunk = *link;
    *link = chunk->newer;
    ring->spare_bytes -= chunk->bytes;
    return chunk;
}

void ps_ring_chunk_trim(struct ring *ring, size_t keep_bytes) {
    while (ring->spare_bytes > keep_bytes) {
        give(ring, pop_spare(ring, &ring->spares));
    }
}

/* When there are too many, the longer ones are retained: they fit more. */
static void keep(struct ring *ring, struct ps_ring_chunk *chunk) {
    size_t max = ring->spare_max_bytes;
    if (chunk->bytes > max) {
        give(ring, chunk);
        return;
    }
    while (chunk->bytes > max - ring->spare_bytes) {
        if (ring->spares->bytes >= chunk->bytes) {
            give(ring, chunk);
            return;
        }
        give(ring, pop_spare(ring, &ring->spares));
    }
    chunk->newer = ring->spares;
    ring->spares = chunk;
    ring->spare_bytes += chunk->bytes;
}

void ps_ring_chunk_recycle(struct ring *ring, struct ps_ring_chunk *chunk) {
    ring->busy_count--;
    if (!chunk->is_huge) {
        if (chunk->older != NULL) {
            chunk->older->newer = chunk->newer;
        }
        if (chunk->newer != NULL) {
            chunk->newer->older = chunk->older;
        }
    }
    if (chunk == ring->home) {
        ring->is_home_spare = true;
    } else {
        keep(ring, chunk);
    }
}

void ps_ring_chunk_harvest(struct ring *ring) {
    if (ps_load_relaxed(&ring->x_drained) == NULL) { /* relaxed: a hint, the exchange decides */
        return;
    }
    /* acquire: pairs with the release in ps_ring_chunk_drained; makes x_next visible, and that the
     * releasing threads are done with the chunks */
    struct ps_ring_chunk *chunk = ps_exchange_acquire(&ring->x_drained, NULL);
    while (chunk != NULL) { /* ends: a list */
        struct ps_ring_chunk *next = chunk->x_next;
        ps_ring_chunk_recycle(ring, chunk);
        chunk = next;
    }
}

static struct ps_ring_chunk *find_spare(struct ring *ring, size_t bytes, size_t align,
                                        size_t max_bytes) {
    struct ps_ring_chunk **link = &ring->spares;
    for (int tried = 0; tried < SPARES_TRIED && *link != NULL; tried++) {
        struct ps_ring_chunk *chunk = *link;
        if (chunk->bytes <= max_bytes &&
            ps_ring_place(chunk->start, chunk->end, bytes, align) != NULL) {
            return pop_spare(ring, link);
        }
        link = &chunk->newer;
    }
    return NULL;
}

/* A chunk of so many bytes has room for the block wherever the source puts it. */
static size_t bytes_for(size_t bytes, size_t align) {
    size_t slack = align > PS_CACHE_LINE ? align : 0;
    return ps_round_up(sizeof(struct ps_ring_chunk) + slack + bytes, PS_ALIGN_DEFAULT);
}

struct ps_ring_chunk *ps_ring_chunk_obtain(struct ring *ring, size_t bytes, size_t align) {
    ps_ring_chunk_harvest(ring);
    struct ps_ring_chunk *home = ring->home;
    if (ring->is_home_spare && ps_ring_place(home->start, home->end, bytes, align) != NULL) {
        ring->is_home_spare = false;
        return home;
    }
    struct ps_ring_chunk *chunk = find_spare(ring, bytes, align, SIZE_MAX);
    if (chunk == NULL) {
        size_t chunk_bytes;
        void *base =
            ps_chunk_take(&ring->chunks, bytes_for(bytes, align), PS_CACHE_LINE, &chunk_bytes);
        chunk = base != NULL ? ps_ring_chunk_format(ring, base, chunk_bytes) : NULL;
    }
    return chunk;
}

/* Malloc mode: the releasing thread returns it, so it is not in the ring's account. */
static struct ps_ring_chunk *obtain_alone(struct ring *ring, size_t bytes, size_t align) {
    struct ps_chunks account = ring->chunks;
    size_t start = ps_round_up(sizeof(struct ps_ring_chunk), align);
    void *base = ps_chunk_take_exact(&account, start + bytes, ps_max(align, PS_CACHE_LINE));
    if (base == NULL) {
        return NULL;
    }
    struct ps_ring_chunk *chunk = ps_ring_chunk_format(ring, base, start + bytes);
    return chunk;
}

struct ps_ring_chunk *ps_ring_chunk_obtain_huge(struct ring *ring, size_t bytes, size_t align) {
    if (ring->is_malloc) {
        return obtain_alone(ring, bytes, align);
    }
    ps_ring_chunk_harvest(ring);
    size_t least = ps_round_up(bytes_for(bytes, align), PS_PAGE_BYTES);
    struct ps_ring_chunk *chunk = find_spare(ring, bytes, align, least * 2);
    if (chunk == NULL) {
        void *base = ps_chunk_take_exact(&ring->chunks, least, PS_CACHE_LINE);
        chunk = base != NULL ? ps_ring_chunk_format(ring, base, least) : NULL;
    }
    return chunk;
}

bool ps_ring_chunk_retire(struct ps_ring_chunk *chunk) {
    return add_acq_rel(&chunk->x_live, chunk->frame_count - LIVE_BIAS) != 0;
}

void ps_ring_chunk_advance(struct ring *ring, struct ps_ring_chunk *chunk) {
    struct ps_ring_chunk *old = ring->current;
    chunk->top = chunk->start;
    chunk->newest = NULL;
    chunk->frame_count = ring->open != NULL ? 1 : 0;
    chunk->is_huge = false;
    ps_store_relaxed(&chunk->x_live, LIVE_BIAS); /* relaxed: no other thread has a frame in it */
    chunk->older = old;
    chunk->newer = old->newer;
    if (old->newer != NULL) {
        old->newer->older = chunk;
    }
    old->newer = chunk;
    ring->current = chunk;
    ring->busy_count++;
    if (!ps_ring_chunk_retire(old)) {
        ps_ring_chunk_recycle(ring, old);
    }
}
