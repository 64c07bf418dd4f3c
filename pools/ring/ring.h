/* SPDX-License-Identifier: MIT */
/*
 * The internals of a ring. Owns no state. Callers: ring.c, chunks.c, release.c, rewind.c of this
 * folder. No locks.
 *
 * A chunk is in one of four places, and only the owner moves it, except for one step:
 *   in order    current or retired, in the list older/newer; at least one frame may be live in it
 *   of a frame  in frame->huge: it contains a single block
 *   drained     on x_drained: put there by the thread whose release drained it, the one step
 *   spare       on the list `spares`, or home with is_home_spare
 *
 * Each chunk in order has frame_count (owner) frames that touch it. x_live counts down from
 * LIVE_BIAS by one per release: current: x_live == LIVE_BIAS - frames released, never 0 retired:
 * x_live == frame_count - frames released; the release that reaches 0 drains the chunk
 *
 * A released frame's thread touches of the ring: x_drained, and after the end x_busy and the frozen
 * `chunks`; of a chunk: the second cache line, and `newer` within its own frame. Nothing else.
 */
#ifndef PS_RING_RING_H
#define PS_RING_RING_H

#include "pools/common/canary.h"
#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/ring.h>

#define LIVE_BIAS ((int64_t)1 << 62)

struct ring;

struct ps_ring_chunk {
    char *top;   /* after the newest block; for the open frame in normal mode, the ring has it */
    char *start; /* of the first frame, aligned to 16 */
    char *end;   /* aligned to 16 */
    struct ps_ring_chunk *older;
    struct ps_ring_chunk *newer;  /* in order; next in frame->huge and in `spares` */
    struct ps_ring_frame *newest; /* of the frames that begin here */
    int64_t frame_count;          /* frames that touch it, since it was put in order */
    /* From here on, any thread. */
    PS_ALIGNED(PS_CACHE_LINE) int64_t x_live;
    struct ps_ring_chunk *x_next; /* on x_drained */
    struct ring *ring;            /* constant */
    size_t bytes;                 /* constant */
    void *base;                   /* constant: what the source gave */
    bool is_huge;                 /* constant while a frame has it */
};

struct ring {
    struct ps_ring hot; /* first: the address is that of the public struct */
    struct ps_ring_frame *open;
    struct ps_ring_chunk *current;
    struct ps_ring_chunk *spares;
    size_t spare_bytes;
    size_t spare_max_bytes;
    size_t busy_count; /* chunks in order, of a frame, or drained */
    void *owner;       /* checked mode: a mark of the thread */
    struct ps_chunks chunks;
    struct ps_ring_chunk
        *home; /* the chunk that the ring lives in: it is never given before the end */
    bool is_home_spare;
    bool is_checked;
    bool is_malloc;
    /* From here on, any thread. */
    PS_ALIGNED(PS_CACHE_LINE) struct ps_ring_chunk *x_drained; /* PS_RING_IS_DEAD after the end */
    int64_t x_busy; /* after the end: chunks that are neither drained nor returned */
};

/* Values of x_state. FRAME_WATCHED: sealed in checked mode, so that a release has more to do. */
#define FRAME_OPEN ((uintptr_t)0x6f70656ef4a3e0f0)
#define FRAME_SEALED ((uintptr_t)0x7365616cf4a3e0f0)
#define FRAME_WATCHED ((uintptr_t)0x77617463f4a3e0f0)
#define FRAME_RELEASED ((uintptr_t)0x72656c65f4a3e0f0)

PS_HIDDEN extern struct ps_ring_chunk ps_ring_dead;
#define PS_RING_IS_DEAD (&ps_ring_dead)

static inline struct ring *ring_of(struct ps_ring *ring) { return (struct ring *)ring; }

/* The sum. Acquire: what the others did with the chunk before is visible to the draining thread.
 * Release: what this thread did with it is. Pairs with itself and with the owner's load in
 * ps_ring_begin. */
static inline int64_t add_acq_rel(int64_t *x_count, int64_t added) {
    int64_t seen = ps_load_relaxed(x_count);                     /* relaxed: the swap decides */
    while (!ps_cas_weak_acq_rel(x_count, &seen, seen + added)) { /* ends: another one succeeded */
    }
    return seen + added;
}

/* The place of a block between `top` and `end`; NULL if it does not fit. */
static inline char *ps_ring_place(char *top, const char *end, size_t bytes, size_t align) {
    size_t room = (size_t)(end - top);
    size_t before = -(uintptr_t)top & (align - 1);
    return before <= room && bytes <= room - before ? top + before : NULL;
}

/* In checked mode, unless blocks are malloc's: chunks have frames and the records of canary.h, each
 * at a multiple of 16. */
static inline bool ps_ring_has_canaries(const struct ring *ring) {
    return ring->is_checked && !ring->is_malloc;
}

/* chunks.c */
struct ps_ring_chunk *ps_ring_chunk_format(struct ring *ring, void *base, size_t bytes);
/* A chunk that has `bytes` aligned to `align`, in no place yet. NULL and ENOMEM. */
struct ps_ring_chunk *ps_ring_chunk_obtain(struct ring *ring, size_t bytes, size_t align);
/* The same, for one large block. */
struct ps_ring_chunk *ps_ring_chunk_obtain_huge(struct ring *ring, size_t bytes, size_t align);
/* Puts a chunk in order after the current one, as the current one; the old one is retired. */
void ps_ring_chunk_advance(struct ring *ring, struct ps_ring_chunk *chunk);
/* Retires: from now on the release of its last frame drains it. False: it is drained now. */
bool ps_ring_chunk_retire(struct ps_ring_chunk *chunk);
/* A chunk in order, or huge, without live frames: takes it out and caches it or returns it. */
void ps_ring_chunk_recycle(struct ring *ring, struct ps_ring_chunk *chunk);
/* Collects the drained chunks. */
void ps_ring_chunk_harvest(struct ring *ring);
void ps_ring_chunk_trim(struct ring *ring, size_t keep_bytes);
/* Gives a chunk back to the source without the ring's account: any thread. */
void ps_ring_chunk_give_alone(const struct ring *ring, struct ps_ring_chunk *chunk);

/* release.c. Aborts where a canary of the frame's blocks has changed, of those in its chunks from
 * `from` in `chunk` to `end` in `last`. Only in rings that have them. */
void ps_ring_verify(const struct ring *ring, const struct ps_ring_chunk *chunk, const char *from,
                    const struct ps_ring_chunk *last, const char *end);
void ps_ring_verify_huge(const struct ring *ring, const struct ps_ring_chunk *huge);

/* A chunk has lost its last frame; any thread. */
void ps_ring_chunk_drained(struct ps_ring_chunk *chunk);
/* After the end: so many chunks less. The last one takes the ring along. */
void ps_ring_chunks_released(struct ring *ring, int64_t count);

/* ring.c. Checked mode only. */
void ps_ring_check_thread(const struct ring *ring);
/* A ring that PS_DEBUG=leaks does not list. */
struct ps_ring *ps_ring_create_unlisted(const struct ps_ring_options *given);
/* The open frame becomes a sealed one. */
void ps_ring_close_frame(struct ring *ring);
/* The frame becomes the open one, from `top` in the current chunk on. */
void ps_ring_open_frame(struct ring *ring, struct ps_ring_frame *frame, char *top);

#endif
