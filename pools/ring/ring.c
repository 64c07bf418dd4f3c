/* SPDX-License-Identifier: MIT */
/*
 * See poolshim/ring.h: what the owner does. Owns struct ring. Callers: the program. Calls chunks.c,
 * release.c. No locks: one owner; what others touch is listed in ring.h.
 */
#include "pools/ring/ring.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define FIRST_BYTES ((size_t)64 << 10)
#define MAX_BYTES ((size_t)1 << 20)
#define SPARE_BYTES ((size_t)1 << 20)

/* Above this, sizes are refused: so later additions to them cannot overflow. */
#define BLOCK_MAX_BYTES ((size_t)PTRDIFF_MAX / 2)

void ps_ring_check_thread(const struct ring *ring) {
    if (ring->owner != (void *)pthread_self()) {
        ps_debug_misuse("used by a thread that does not own it: ring", ring, ring->chunks.name);
    }
}

void ps_ring_adopt(struct ps_ring *ring) { ring_of(ring)->owner = (void *)pthread_self(); }

void ps_ring_open_frame(struct ring *ring, struct ps_ring_frame *frame, char *top) {
    /* relaxed: no other thread has the frame while it is open */
    ps_store_relaxed(&frame->x_state, FRAME_OPEN);
    ring->open = frame;
    ring->current->top = top;
    if (!ring->is_checked) {
        ring->hot.top = top;
        ring->hot.end = ring->current->end;
    }
}

/* No room, so that the fast path calls ps_ring_alloc_slow each time. */
static void close_hit_path(struct ring *ring) {
    ring->hot.top = (char *)ring;
    ring->hot.end = (char *)ring;
}

/* Stores in the chunk what the fast path has used of it. */
static void settle_top(struct ring *ring) {
    if (!ring->is_checked) {
        ring->current->top = ring->hot.top;
    }
}

void ps_ring_close_frame(struct ring *ring) {
    struct ps_ring_frame *frame = ring->open;
    settle_top(ring);
    frame->last = ring->current;
    frame->end = ring->current->top;
    /* relaxed: the program passes the frame on, and synchronises that */
    ps_store_relaxed(&frame->x_state, ring->is_checked ? FRAME_WATCHED : FRAME_SEALED);
    ring->open = NULL;
    close_hit_path(ring);
}

struct ps_ring *ps_ring_create_unlisted(const struct ps_ring_options *given) {
    struct ps_ring_options options = {0};
    if (given != NULL) {
        options = *given;
    }
    bool is_malloc = ps_debug_is_malloc();
    if (is_malloc) {
        options.chunks.source = ps_source_malloc();
    }
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options.chunks, "ring", FIRST_BYTES, MAX_BYTES);
    size_t least =
        sizeof(struct ps_ring_chunk) + sizeof(struct ring) + sizeof(struct ps_ring_frame);
    size_t bytes;
    void *base =
        ps_chunk_take(&chunks, ps_round_up(least, PS_ALIGN_DEFAULT), PS_CACHE_LINE, &bytes);
    if (base == NULL) {
        return NULL;
    }
    struct ring *ring = (void *)((struct ps_ring_chunk *)base + 1);
    *ring = (struct ring){
        .spare_max_bytes = options.spare_bytes != 0 ? options.spare_bytes : SPARE_BYTES,
        .busy_count = 1,
        .chunks = chunks,
        .is_checked = is_malloc || ps_debug_is_check(),
        .is_malloc = is_malloc,
    };
    struct ps_ring_chunk *home = base;
    *home = (struct ps_ring_chunk){
        .start = (char *)ps_round_up((uintptr_t)(ring + 1), PS_ALIGN_DEFAULT),
        .end = (char *)ps_round_down((uintptr_t)base + bytes, PS_ALIGN_DEFAULT),
        .x_live = LIVE_BIAS,
        .ring = ring,
        .bytes = bytes,
        .base = base,
    };
    home->top = home->start;
    ring->home = home;
    ring->current = home;
    close_hit_path(ring);
    ps_ring_adopt(&ring->hot);
    if (ring->is_checked) {
        ps_poison(home->start, (size_t)(home->end - home->start));
    }
    return &ring->hot;
}

/* Frames that outlive the ring prevent its end: a ring that remains is the leak. */
static const struct ps_family family = {.name = "ring", .must_end = true};

struct ps_ring *ps_ring_create(const struct ps_ring_options *options) {
    struct ps_ring *ring = ps_ring_create_unlisted(options);
    if (ring != NULL) {
        ps_registry_note_made(&ring_of(ring)->chunks, ring, &family);
    }
    return ring;
}

bool ps_ring_enlist(struct ps_ring *ring) {
    return ps_registry_enter(&ring_of(ring)->chunks, ring, &family);
}

void ps_ring_destroy(struct ps_ring *given) {
    struct ring *ring = ring_of(given);
    if (ring == NULL) {
        return;
    }
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    if (ring->open != NULL) {
        struct ps_ring_frame *frame = ring->open;
        ps_ring_close_frame(ring);
        ps_ring_release(frame);
    }
    if (!ps_ring_chunk_retire(ring->current)) {
        ps_ring_chunk_recycle(ring, ring->current);
    }
    ps_ring_chunk_harvest(ring);
    ps_ring_chunk_trim(ring, 0);
    /* relaxed: the exchange publishes it. One more than there are: the owner's own. */
    ps_store_relaxed(&ring->x_busy, (int64_t)ring->busy_count + 1);
    /* Pairs with the swap and the load in ps_ring_chunk_drained: makes the ring's last state
     * visible there, and the chunks drained until now visible here. */
    struct ps_ring_chunk *chunk = ps_exchange_seq_cst(&ring->x_drained, PS_RING_IS_DEAD);
    int64_t released = 1;
    while (chunk != NULL) { /* ends: a list */
        struct ps_ring_chunk *next = chunk->x_next;
        if (chunk != ring->home) {
            ps_ring_chunk_give_alone(ring, chunk);
        }
        released++;
        chunk = next;
    }
    ps_ring_chunks_released(ring, released);
}

struct ps_ring_frame *ps_ring_begin(struct ps_ring *given) {
    struct ring *ring = ring_of(given);
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    if (ring->open != NULL) {
        ps_debug_misuse("frame begun while another is open: ring", ring, ring->chunks.name);
    }
    struct ps_ring_chunk *chunk = ring->current;
    /* acquire: pairs with add_acq_rel of the releases; they are done with the chunk */
    if (ps_load_acquire(&chunk->x_live) == LIVE_BIAS - chunk->frame_count) {
        chunk->top = chunk->start;
        chunk->newest = NULL;
    }
    struct ps_ring_frame *frame =
        (void *)ps_ring_place(chunk->top, chunk->end, sizeof *frame, PS_ALIGN_DEFAULT);
    if (frame == NULL) {
        chunk = ps_ring_chunk_obtain(ring, sizeof *frame, PS_ALIGN_DEFAULT);
        if (chunk == NULL) {
            return NULL;
        }
        ps_ring_chunk_advance(ring, chunk);
        frame = (void *)chunk->start;
    }
    if (ring->is_checked) {
        ps_unpoison(frame, sizeof *frame);
    }
    frame->first = chunk;
    frame->huge = NULL;
    frame->older = chunk->newest;
    chunk->newest = frame;
    chunk->frame_count++;
    ps_ring_open_frame(ring, frame, (char *)(frame + 1));
    return frame;
}

void ps_ring_seal(struct ps_ring *given) {
    struct ring *ring = ring_of(given);
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    if (ring->open == NULL) {
        ps_debug_misuse("sealed with no frame open: ring", ring, ring->chunks.name);
    }
    ps_ring_close_frame(ring);
}

/* Puts the block into the current chunk; NULL if it does not fit. */
static void *cut(struct ring *ring, size_t bytes, size_t align) {
    struct ps_ring_chunk *chunk = ring->current;
    if (ps_ring_has_canaries(ring)) {
        return ps_canary_cut(&chunk->top, chunk->end, bytes, align);
    }
    char *block = ps_ring_place(chunk->top, chunk->end, bytes, align);
    if (block != NULL) {
        ps_ring_open_frame(ring, ring->open, block + bytes);
    }
    return block;
}

static void *cut_huge(struct ring *ring, size_t bytes, size_t align) {
    bool has_canaries = ps_ring_has_canaries(ring);
    size_t need = bytes;
    if (has_canaries && !ps_canary_need(bytes, align, &need)) {
        errno = ENOMEM;
        return NULL;
    }
    struct ps_ring_chunk *chunk =
        ps_ring_chunk_obtain_huge(ring, need, has_canaries ? PS_ALIGN_DEFAULT : align);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->is_huge = true;
    chunk->newer = ring->open->huge;
    ring->open->huge = chunk;
    ring->busy_count += ring->is_malloc ? 0 : 1;
    if (has_canaries) {
        chunk->top = chunk->start;
        return ps_canary_cut(&chunk->top, chunk->end, bytes, align);
    }
    return ps_ring_place(chunk->start, chunk->end, bytes, align);
}

static void *cut_elsewhere(struct ring *ring, size_t bytes, size_t align) {
    if (ring->is_malloc || bytes + align > ring->chunks.next_bytes / 4) {
        return cut_huge(ring, bytes, align);
    }
    bool has_canaries = ps_ring_has_canaries(ring);
    struct ps_ring_chunk *chunk =
        ps_ring_chunk_obtain(ring, bytes + (has_canaries ? PS_CANARY_COST + align : 0),
                             has_canaries ? PS_ALIGN_DEFAULT : align);
    if (chunk == NULL) {
        return NULL;
    }
    ps_ring_chunk_advance(ring, chunk);
    return cut(ring, bytes, align);
}

void *ps_ring_alloc_slow(struct ps_ring *given, size_t bytes, size_t align) {
    struct ring *ring = ring_of(given);
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    if (ring->open == NULL) {
        ps_debug_misuse("block taken with no frame open: ring", ring, ring->chunks.name);
    }
    if (!ps_is_power_of_two(align)) {
        errno = EINVAL;
        return NULL;
    }
    if (bytes > BLOCK_MAX_BYTES || align > BLOCK_MAX_BYTES / 2) {
        errno = ENOMEM;
        return NULL;
    }
    size_t least = ps_max(bytes, 1);
    settle_top(ring);
    void *block = ring->is_malloc ? NULL : cut(ring, least, align);
    if (block == NULL) {
        block = cut_elsewhere(ring, least, align);
    }
    if (ring->is_malloc && block != NULL) {
        ps_unpoison(block, least);
    }
    return block;
}

void *ps_ring_zalloc(struct ps_ring *ring, size_t bytes) {
    void *block = ps_ring_alloc(ring, bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

/* True when the block could be resized where it is: it shrinks, or is the newest and has room. */
static bool resize_in_place(struct ring *ring, char *block, size_t old_bytes, size_t new_bytes) {
    struct ps_ring_chunk *chunk = ring->current;
    settle_top(ring);
    bool is_newest = block + old_bytes == chunk->top && block >= chunk->start;
    bool is_fitting =
        new_bytes <= old_bytes || (is_newest && new_bytes <= (size_t)(chunk->end - block));
    if (is_fitting && is_newest) {
        ps_ring_open_frame(ring, ring->open, block + new_bytes);
    }
    if (is_fitting && new_bytes < old_bytes && ring->is_malloc) {
        ps_poison(block + new_bytes, old_bytes - new_bytes);
    }
    return is_fitting;
}

/* The same for blocks with canaries. */
static bool resize_checked(struct ring *ring, char *block, size_t old_bytes, size_t new_bytes) {
    struct ps_ring_chunk *chunk = ring->current;
    if (!ps_canary_is_block(block)) {
        ps_ring_check(&ring->hot); /* a write in front of the block has its own line */
        ps_debug_misuse("resized, but no block:", block, ring->chunks.name);
    }
    ps_canary_verify(block, (struct ps_canary_pool){ring->chunks.family, ring->chunks.name});
    if (ps_max(ps_canary_bytes(block), 1) != old_bytes) {
        ps_debug_misuse("old size is wrong of block", block, ring->chunks.name);
    }
    char *old_end = ps_canary_end(block);
    bool is_newest = old_end == chunk->top;
    size_t room = is_newest ? (size_t)(chunk->end - block) - PS_CANARY_TAIL : old_bytes;
    if (new_bytes > room) {
        return false;
    }
    char *end = is_newest ? ps_canary_end_for(block, new_bytes) : old_end;
    ps_canary_resize(block, new_bytes, end);
    if (is_newest) {
        chunk->top = end;
        ps_poison(end, (size_t)(ps_max((uintptr_t)old_end, (uintptr_t)end) - (uintptr_t)end));
    }
    return true;
}

void *ps_ring_realloc_aligned(struct ps_ring *given, void *block, size_t old_bytes,
                              size_t new_bytes, size_t align) {
    struct ring *ring = ring_of(given);
    if (block == NULL || ring->open == NULL || !ps_is_power_of_two(align)) {
        return ps_ring_alloc_aligned(given, new_bytes, align);
    }
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    bool (*resize)(struct ring *, char *, size_t, size_t) =
        ps_ring_has_canaries(ring) ? resize_checked : resize_in_place;
    if (((uintptr_t)block & (align - 1)) == 0 &&
        resize(ring, block, ps_max(old_bytes, 1), ps_max(new_bytes, 1))) {
        return block;
    }
    void *moved = ps_ring_alloc_aligned(given, new_bytes, align);
    if (moved != NULL) {
        memcpy(moved, block, ps_min(old_bytes, new_bytes));
    }
    return moved;
}

void ps_ring_check(struct ps_ring *given) {
    struct ring *ring = ring_of(given);
    if (ring->is_checked) {
        ps_ring_check_thread(ring);
    }
    const struct ps_ring_frame *frame = ring->open;
    if (frame != NULL && ps_ring_has_canaries(ring)) {
        ps_ring_verify_huge(ring, frame->huge);
        ps_ring_verify(ring, frame->first, (const char *)(frame + 1), ring->current,
                       ring->current->top);
    }
}
