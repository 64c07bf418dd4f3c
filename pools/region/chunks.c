/* SPDX-License-Identifier: MIT */
/*
 * The chunks of a region: placing a block, freeing the newest one, adding a chunk, retaining empty
 * ones. Callers: the files of this folder. Calls pools/common.
 *
 * Freeing must restore what allocating changed, or the block before the freed one would not be
 * recognised as the newest. A block that had to be aligned leaves a gap; its width and the floor
 * before it are written into the gap's last 8 bytes, and the block becomes the floor. So the floor
 * is either the start of the chunk or the newest block with a gap in front of it.
 */
#include "pools/region/region.h"

struct gap {
    uint32_t floor_offset; /* of the floor before, from the chunk's header */
    uint32_t bytes;
} __attribute__((packed)); /* lies before a block of any alignment */

enum { KEPT_TRIES = 4 }; /* chunks for reuse that are tried */

/* Removes the marks of a watched region from a gap: its bytes may be read until the chunk is empty
 * again. */
static void push_gap(struct ps_region_chunk *chunk, char *block, size_t bytes) {
    struct gap *gap = (struct gap *)block - 1;
    ps_unpoison(gap, sizeof *gap);
    gap->floor_offset = (uint32_t)(chunk->floor - (char *)chunk);
    gap->bytes = (uint32_t)bytes;
    chunk->floor = block;
}

static void pop_gap(struct ps_region_chunk *chunk) {
    const struct gap *gap = (const struct gap *)chunk->floor - 1;
    chunk->at = chunk->floor - gap->bytes;
    chunk->floor = (char *)chunk + gap->floor_offset;
}

/* bytes: as ps_region_block_bytes gives them. NULL when the chunk has no room. */
void *ps_region_place(struct ps_region_chunk *chunk, size_t bytes, size_t align) {
    size_t room = (size_t)(chunk->end - chunk->at);
    size_t gap = (0 - (uintptr_t)chunk->at) & (align - 1);
    if (gap != 0 && gap < sizeof(struct gap)) {
        gap += ps_round_up(sizeof(struct gap) - gap, align);
    }
    if (gap > room || bytes > room - gap) {
        return NULL;
    }
    char *block = chunk->at + gap;
    if (gap != 0) {
        push_gap(chunk, block, gap);
    }
    chunk->at = block + bytes;
    return block;
}

/* Takes back the newest block of the chunk and the gap in front of it. */
void ps_region_lower(struct ps_region_chunk *chunk, char *block) {
    chunk->at = block;
    if (block == chunk->floor && block != chunk->start) {
        pop_gap(chunk);
    }
}

void ps_region_note_peak(struct ps_region_state *region) {
    region->peak_bytes = ps_max(region->peak_bytes, region->chunks.total_bytes);
}

/* One of the retained chunks with at least that length. */
static struct ps_region_chunk *take_kept(struct ps_region_state *region, size_t least) {
    struct ps_region_chunk **link = &region->kept;
    for (unsigned tries = 0; tries < KEPT_TRIES && *link != NULL; tries++) {
        struct ps_region_chunk *chunk = *link;
        if (chunk->bytes >= least) {
            *link = chunk->prev;
            region->kept_bytes -= chunk->bytes;
            return chunk;
        }
        link = &chunk->prev;
    }
    return NULL;
}

/* least: header and all. Makes an empty chunk the current one. */
bool ps_region_add_chunk(struct ps_region_state *region, size_t least) {
    struct ps_region_chunk *chunk = take_kept(region, least);
    if (chunk == NULL) {
        size_t bytes;
        chunk = ps_chunk_take(&region->chunks, least, PS_ALIGN_DEFAULT, &bytes);
        if (chunk == NULL) {
            return false;
        }
        chunk->bytes = bytes;
        ps_region_note_peak(region);
    }
    chunk->prev = region->chunk;
    chunk->start = (char *)(chunk + 1);
    chunk->at = chunk->start;
    chunk->floor = chunk->start;
    chunk->end = (char *)chunk + ps_round_down(chunk->bytes, PS_ALIGN_DEFAULT);
    if (region->is_watched) {
        ps_poison(chunk->start, (size_t)(chunk->end - chunk->start));
    }
    region->chunk = chunk;
    return true;
}

void ps_region_give_chunk(struct ps_region_state *region, struct ps_region_chunk *chunk) {
    ps_chunk_give(&region->chunks, chunk, chunk->bytes);
}

/* True: the limit allows to retain the chunk, and the caller puts it on the list. */
static bool may_keep(struct ps_region_state *region, const struct ps_region_chunk *chunk) {
    if (chunk->bytes > region->retain_bytes ||
        region->kept_bytes > region->retain_bytes - chunk->bytes) {
        return false;
    }
    region->kept_bytes += chunk->bytes;
    return true;
}

/* While the newest chunk has become empty, and is not the first: retains it, or returns it and
 * continues with its length, so that repeated growing and shrinking does not make chunks longer and
 * longer. */
void ps_region_retire_empty(struct ps_region_state *region) {
    struct ps_region_chunk *chunk = region->chunk;
    while (chunk->at == chunk->start && chunk != &region->first) {
        region->chunk = chunk->prev;
        if (may_keep(region, chunk)) {
            chunk->prev = region->kept;
            region->kept = chunk;
        } else {
            region->chunks.next_bytes = ps_min(region->chunks.next_bytes, chunk->bytes);
            ps_region_give_chunk(region, chunk);
        }
        chunk = region->chunk;
    }
}

/* Makes the first chunk the current one, and empty. Retains the longest of the others, longest
 * first on the list: the next round then needs fewer of them. */
void ps_region_rewind(struct ps_region_state *region) {
    struct ps_region_chunk **tail = &region->kept;
    struct ps_region_chunk *chunk = region->chunk;
    while (chunk != &region->first) {
        struct ps_region_chunk *older = chunk->prev;
        if (may_keep(region, chunk)) {
            if (region->is_watched) {
                ps_poison(chunk->start, (size_t)(chunk->end - chunk->start));
            }
            chunk->prev = *tail;
            *tail = chunk;
            tail = &chunk->prev;
        } else {
            ps_region_give_chunk(region, chunk);
        }
        chunk = older;
    }
    region->chunk = chunk;
    chunk->at = chunk->start;
    chunk->floor = chunk->start;
    if (region->is_watched) {
        ps_poison(chunk->start, (size_t)(chunk->end - chunk->start));
    }
}
