/* SPDX-License-Identifier: MIT */
/*
 * Going back to a checkpoint, and the statistics: what walks the frames of a ring. Callers: the
 * program, the owner's thread. No locks.
 */
#include "pools/ring/ring.h"

struct ps_ring_checkpoint ps_ring_checkpoint(struct ps_ring *given) {
    struct ring *ring = ring_of(given);
    struct ps_ring_frame *frame = ring->open;
    ps_ring_seal(given);
    return (struct ps_ring_checkpoint){frame, ring->current, ring->current->top};
}

/* relaxed: the program has ordered the releases of frames before, or they may be missed */
static bool is_sealed(const struct ps_ring_frame *frame) {
    uintptr_t state = ps_load_relaxed(&frame->x_state);
    return state == FRAME_SEALED || state == FRAME_WATCHED;
}

/* Releases what begins in the chunk, down to `limit`. */
static void drop_frames(const struct ps_ring_chunk *chunk, const struct ps_ring_frame *limit) {
    struct ps_ring_frame *frame = chunk->newest;
    while (frame != limit && frame != NULL) { /* ends: a list */
        struct ps_ring_frame *older = frame->older;
        if (is_sealed(frame)) {
            ps_ring_release(frame);
        }
        frame = older;
    }
}

void ps_ring_rewind(struct ps_ring *given, const struct ps_ring_checkpoint *checkpoint) {
    struct ring *ring = ring_of(given);
    struct ps_ring_frame *frame = checkpoint->frame;
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    if (ring->open != NULL) {
        ps_ring_close_frame(ring);
    }
    if (!is_sealed(frame)) {
        ps_debug_misuse("rewound to a frame that is released: frame", frame, ring->chunks.name);
    }
    if (ps_ring_has_canaries(ring)) {
        ps_ring_verify_huge(ring, frame->huge);
        ps_ring_verify(ring, checkpoint->chunk, checkpoint->top, frame->last, frame->end);
    }
    ps_ring_chunk_harvest(ring);
    struct ps_ring_chunk *chunk = ring->current;
    while (chunk != checkpoint->chunk) { /* ends: a list, and the chunk is in it */
        struct ps_ring_chunk *older = chunk->older;
        drop_frames(chunk, NULL);
        chunk = older;
        if (chunk == NULL) {
            ps_debug_misuse("rewound to a frame of another ring: frame", frame, ring->chunks.name);
        }
    }
    struct ps_ring_frame *limit = frame->first == chunk ? frame : NULL;
    drop_frames(chunk, limit);
    chunk->newest = limit;
    if (chunk != ring->current) {
        struct ps_ring_chunk *old = ring->current;
        /* It takes releases as the current chunk again; the frame is live, so that it is not 0. */
        (void)add_acq_rel(&chunk->x_live, LIVE_BIAS - chunk->frame_count);
        ring->current = chunk;
        if (!ps_ring_chunk_retire(old)) {
            ps_ring_chunk_recycle(ring, old);
        }
        ps_ring_chunk_harvest(ring);
    }
    ps_ring_open_frame(ring, frame, checkpoint->top);
}

/* Continues in the chunk of the ring's record where no frame needs the current one, which may be
 * the longest of all and is then a spare one. */
static void go_home(struct ring *ring, size_t keep_bytes) {
    struct ps_ring_chunk *chunk = ring->current;
    if (ring->spare_bytes <= keep_bytes && chunk->bytes <= keep_bytes) {
        return;
    }
    /* acquire: as in ps_ring_begin */
    if (ring->open == NULL && ring->is_home_spare &&
        ps_load_acquire(&chunk->x_live) == LIVE_BIAS - chunk->frame_count) {
        ring->is_home_spare = false;
        ps_ring_chunk_advance(ring, ring->home);
    }
}

size_t ps_ring_trim_to(struct ps_ring *given, size_t keep_bytes) {
    struct ring *ring = ring_of(given);
    size_t before_bytes = ring->chunks.total_bytes;
    ps_ring_check(given);
    ps_ring_chunk_harvest(ring); /* returns what exceeds the spare chunks */
    go_home(ring, keep_bytes);
    ps_ring_chunk_trim(ring, keep_bytes);
    return before_bytes - ring->chunks.total_bytes;
}

size_t ps_ring_trim(struct ps_ring *ring, size_t keep_bytes) {
    return ps_ring_trim_to(ring, keep_bytes);
}

const char *ps_ring_name(const struct ps_ring *ring) {
    return ((const struct ring *)ring)->chunks.name;
}

void ps_ring_stats(struct ps_ring *given, struct ps_ring_stats *stats) {
    struct ring *ring = ring_of(given);
    ps_ring_chunk_harvest(ring);
    *stats = (struct ps_ring_stats){
        .chunk_bytes = ring->chunks.total_bytes,
        .chunk_count = ring->chunks.chunk_count,
        .spare_bytes = ring->spare_bytes,
    };
    for (const struct ps_ring_chunk *chunk = ring->current; chunk != NULL; chunk = chunk->older) {
        for (const struct ps_ring_frame *frame = chunk->newest; frame != NULL;
             frame = frame->older) {
            /* relaxed: a snapshot */
            stats->frame_count += ps_load_relaxed(&frame->x_state) != FRAME_RELEASED;
        }
    }
}
