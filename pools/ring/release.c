/* SPDX-License-Identifier: MIT */
/*
 * Actions of other threads on a ring: release of frames, and its end. Callers: the program from any
 * thread, ring.c. No locks: counts and one list, see ring.h.
 */
#include "pools/ring/ring.h"

#include <string.h>

#define FILL_RELEASED 0xdd

/* Its address marks a ring without an owner. */
struct ps_ring_chunk ps_ring_dead;

void ps_ring_chunks_released(struct ring *ring, int64_t count) {
    if (add_acq_rel(&ring->x_busy, -count) == 0) {
        ps_registry_note_ended(&ring->chunks);
        ps_ring_chunk_give_alone(ring, ring->home);
    }
}

void ps_ring_chunk_drained(struct ps_ring_chunk *chunk) {
    struct ring *ring = chunk->ring;
    struct ps_ring_chunk *head = ps_load_relaxed(&ring->x_drained); /* relaxed: the swap decides */
    while (head != PS_RING_IS_DEAD) { /* ends: another thread succeeded, or the ring is dead */
        chunk->x_next = head;
        /* release: pairs with the exchange in ps_ring_chunk_harvest and ps_ring_destroy; makes
         * x_next and the end of this thread's use visible */
        if (ps_cas_weak_release(&ring->x_drained, &head, chunk)) {
            return;
        }
    }
    /* acquire: pairs with the exchange in ps_ring_destroy; makes x_busy and what the owner last
     * wrote to the ring visible */
    (void)ps_load_acquire(&ring->x_drained);
    if (chunk != ring->home) {
        ps_ring_chunk_give_alone(ring, chunk);
    }
    ps_ring_chunks_released(ring, 1);
}

static void drop_one(struct ps_ring_chunk *chunk) {
    if (add_acq_rel(&chunk->x_live, -1) == 0) {
        ps_ring_chunk_drained(chunk);
    }
}

/* From the first on, each chunk may have another user once it is dropped, the frame with it.
 */
static void drop_all(struct ps_ring_chunk *first, struct ps_ring_chunk *last,
                     struct ps_ring_chunk *huge) {
    struct ring *ring = first->ring;
    while (huge != NULL) { /* ends: a list */
        struct ps_ring_chunk *next = huge->newer;
        if (ring->is_malloc) {
            ps_ring_chunk_give_alone(ring, huge);
        } else {
            ps_ring_chunk_drained(huge);
        }
        huge = next;
    }
    while (first != last) { /* ends: the frame's chunks are a list */
        struct ps_ring_chunk *next = first->newer;
        drop_one(first);
        first = next;
    }
    drop_one(last);
}

void ps_ring_verify(const struct ring *ring, const struct ps_ring_chunk *chunk, const char *from,
                    const struct ps_ring_chunk *last, const char *end) {
    struct ps_canary_pool pool = {ring->chunks.family, ring->chunks.name};
    while (chunk != last) { /* ends: the frame's chunks are a list */
        ps_canary_verify_range(from, chunk->top, pool);
        chunk = chunk->newer;
        from = chunk->start;
    }
    ps_canary_verify_range(from, end, pool);
}

void ps_ring_verify_huge(const struct ring *ring, const struct ps_ring_chunk *huge) {
    struct ps_canary_pool pool = {ring->chunks.family, ring->chunks.name};
    for (; huge != NULL; huge = huge->newer) { /* ends: a list */
        ps_canary_verify_range(huge->start, huge->top, pool);
    }
}

static void verify_frame(const struct ps_ring_frame *frame) {
    const struct ring *ring = frame->first->ring;
    if (ps_ring_has_canaries(ring)) {
        ps_ring_verify_huge(ring, frame->huge);
        ps_ring_verify(ring, frame->first, (const char *)(frame + 1), frame->last, frame->end);
    }
}

static void wipe(char *start, const char *end) {
    size_t bytes = (size_t)(end - start);
    ps_unpoison(start, bytes);
    memset(start, FILL_RELEASED, bytes);
    ps_poison(start, bytes);
}

/* Checked mode: fills the blocks of a frame and poisons them. The frame itself is left, so that a
 * second release is detected. */
static void wipe_frame(struct ps_ring_frame *frame) {
    for (struct ps_ring_chunk *huge = frame->huge; huge != NULL; huge = huge->newer) {
        wipe(huge->start, huge->end);
    }
    char *start = (char *)(frame + 1);
    struct ps_ring_chunk *chunk = frame->first;
    while (chunk != frame->last) { /* ends: the frame's chunks are a list */
        wipe(start, chunk->end);
        chunk = chunk->newer;
        start = chunk->start;
    }
    wipe(start, frame->end);
}

PS_COLD static void release_watched(struct ps_ring_frame *frame) {
    uintptr_t seen = FRAME_WATCHED;
    /* Only one of two threads that release the same frame passes. */
    if (!ps_cas_strong_acquire(&frame->x_state, &seen, FRAME_RELEASED)) {
        ps_debug_misuse(seen == FRAME_RELEASED ? "released twice: frame"
                        : seen == FRAME_OPEN   ? "released before it was sealed: frame"
                                               : "released, but not of a ring: frame",
                        frame, "ring");
    }
    verify_frame(frame);
    wipe_frame(frame);
    drop_all(frame->first, frame->last, frame->huge);
}

void ps_ring_release(struct ps_ring_frame *frame) {
    if (frame == NULL) {
        return;
    }
    /* relaxed, also below: the state belongs to the holder of the frame; it is read only to find
     * misuse, and by the owner, which expects concurrent changes. */
    if (PS_UNLIKELY(ps_load_relaxed(&frame->x_state) != FRAME_SEALED)) {
        release_watched(frame);
        return;
    }
    ps_store_relaxed(&frame->x_state, FRAME_RELEASED);
    struct ps_ring_chunk *first = frame->first;
    if (first == frame->last && frame->huge == NULL) {
        drop_one(first);
    } else {
        drop_all(first, frame->last, frame->huge);
    }
}
