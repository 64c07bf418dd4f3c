/* SPDX-License-Identifier: MIT */
/*
 * A drawing of a ring, which shows the frame that nothing releases. Callers: the program, the
 * owner's thread. Calls chunks.c. No locks.
 */
#include "pools/ring/ring.h"

#include <stdio.h>
#include <string.h>

enum { CELLS = 64 };

static const char free_cell = '.';

static char cell_of(const struct ps_ring_frame *frame) {
    uintptr_t state = ps_load_relaxed(&frame->x_state); /* relaxed: a snapshot */
    return state == FRAME_OPEN ? 'o' : state == FRAME_RELEASED ? '-' : '#';
}

/* Every cell in which a byte of [from, to) lies. */
static void fill(char *cells, const struct ps_ring_chunk *chunk, const char *from, const char *to,
                 char cell) {
    size_t length = (size_t)(chunk->end - chunk->start);
    if (from >= to || length == 0) {
        return;
    }
    size_t first = (size_t)(from - chunk->start) * CELLS / length;
    size_t last = ((size_t)(to - chunk->start) * CELLS - 1) / length;
    memset(cells + first, cell, ps_min(last, CELLS - 1) - first + 1);
}

/* carried: the cell of the frame that continues from the chunk before. Returns that for the next.
 */
static char draw(const struct ring *ring, const struct ps_ring_chunk *chunk, char carried,
                 char *cells) {
    memset(cells, free_cell, CELLS);
    cells[CELLS] = '\0';
    bool is_open = chunk == ring->current && ring->open != NULL && !ring->is_checked;
    const char *upper = is_open ? ring->hot.top : chunk->top;
    for (const struct ps_ring_frame *frame = chunk->newest; frame != NULL; frame = frame->older) {
        fill(cells, chunk, (const char *)frame, upper, cell_of(frame));
        upper = (const char *)frame;
    }
    fill(cells, chunk, chunk->start, upper, carried);
    return chunk->newest != NULL ? cell_of(chunk->newest) : carried;
}

void ps_ring_dump(struct ps_ring *given, FILE *out) {
    const struct ring *ring = ring_of(given);
    struct ps_ring_stats stats;
    ps_ring_stats(given, &stats);
    fprintf(out, "ring %s: %zu bytes in %zu chunks, %zu of them spare; %zu frames\n",
            ring->chunks.name, stats.chunk_bytes, stats.chunk_count, stats.spare_bytes,
            stats.frame_count);
    const struct ps_ring_chunk *chunk = ring->current;
    while (chunk->older != NULL) { /* ends: a list */
        chunk = chunk->older;
    }
    char carried = free_cell;
    for (const struct ps_ring_chunk *tail = chunk; chunk != NULL; chunk = chunk->newer) {
        char cells[CELLS + 1];
        carried = draw(ring, chunk, carried, cells);
        fprintf(out, "%18p %8zu |%s|%s%s\n", (const void *)chunk->start, chunk->bytes, cells,
                chunk == tail ? " tail" : "", chunk == ring->current ? " head" : "");
    }
    fprintf(out, "o open, # sealed, - released, . free; chunks of single blocks are not drawn\n");
}
