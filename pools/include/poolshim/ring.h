/* SPDX-License-Identifier: MIT */
/*
 * ring.h - memory that one thread fills and any thread releases: one thread parses a request,
 * passes it to a worker, and the last thread to use it frees all its memory in one call.
 *
 * A ring allocates by moving a pointer. Blocks allocated between ps_ring_begin and ps_ring_seal are
 * a frame. A sealed frame is valid until ps_ring_release, which any thread may call, in any order,
 * with nothing but the frame. One frame is open at a time, any number are sealed.
 *
 *     struct ps_ring_frame *frame = ps_ring_begin(ring);
 *     struct request *request = ps_ring_alloc(ring, sizeof *request);
 *     ...
 *     ps_ring_seal(ring);
 *     hand_over(request, frame);               // in the worker: ps_ring_release(frame);
 *
 * (pools/examples/ring.c is a whole program.)
 *
 * How: each chunk counts the frames that touch it. A release is one atomic subtraction per chunk of
 * its frame; the release that drains a chunk puts it on a list without a lock, from which the owner
 * takes chunks when it needs one. Allocation reads and writes the owner's fields only, no atomics.
 * When all frames of the owner's chunk are released, the next frame begins where the first did, so
 * that short-lived frames reuse memory in the processor's cache.
 *
 * Threads: one at a time (the owner) for all functions that take the ring; ps_ring_release from any
 * thread at any time. The program synchronises the transfer of a frame to another thread, as for
 * any memory. A thread whose release drains a chunk after ps_ring_destroy returns it to the source.
 *
 * Sizes are in bytes, up to PTRDIFF_MAX. Size 0 gives a block of its own. NULL with ENOMEM: memory
 * is exhausted or the size is too large; the ring is as it was. NULL with EINVAL: the alignment is
 * no power of two. Memory is not zeroed, except by ps_ring_zalloc.
 *
 * Misuse that is found always: a block taken or a frame sealed with no frame open, a frame begun
 * while one is open, a frame released while it is open or (unless its memory is in use again)
 * twice. With PS_DEBUG=check (and in checked builds) also: another thread than the owner, and a
 * write over the 48 bytes in front of a block or the 16 or more after it, which release, rewind,
 * ps_ring_check and a realloc of the block find; released memory is filled with 0xdd. With
 * PS_DEBUG=malloc each block is a malloc block.
 *
 * The idea, frames released in any order by any thread, is that of the ring allocator of Intersec's
 * lib-common.
 */
#ifndef POOLSHIM_RING_H
#define POOLSHIM_RING_H

#include <poolshim/bump.h>
#include <poolshim/source.h>
#include <stdio.h>

PS_BEGIN_DECLS

/* Options; all zero is the default. */
struct ps_ring_options {
    /* first_bytes: default 64 KiB; max_bytes: default 1 MiB. A block above a quarter of the next
     * chunk that does not fit gets a chunk of its own. */
    struct ps_chunk_options chunks;
    /* Drained chunks that are retained, in bytes: 0 is the default, 1 MiB; 1 is none. */
    size_t spare_bytes;
};

struct ps_ring_chunk; /* the library's own */

/* The result of ps_ring_begin: pass it on, release it, do not change its fields. */
struct ps_ring_frame {
    struct ps_ring_chunk *first; /* the chunk of this record */
    struct ps_ring_chunk *last;
    struct ps_ring_chunk *huge;  /* chunks of single blocks */
    struct ps_ring_frame *older; /* in the same chunk */
    char *end;                   /* in the last chunk */
    uintptr_t x_state;           /* the releasing thread writes it; see ring.c */
};

/* The fields are the library's own; the owner's thread alone touches them. */
struct ps_ring {
    char *top; /* of the open frame; equal to end when a call goes out of line */
    char *end;
};

/*
 * A ring. options: NULL, or read before the call returns. NULL with ENOMEM. The ring lives in its
 * first chunk. The caller is its owner. O(1).
 */
PS_API struct ps_ring *ps_ring_create(const struct ps_ring_options *options);

/*
 * Ends the ring for its owner. Sealed frames remain valid: the threads that release them return
 * their chunks to the source; the last release frees the ring itself. May run at the same time as
 * releases. An open frame is dropped. NULL: nothing. O(spare chunks).
 */
PS_API void ps_ring_destroy(struct ps_ring *ring) PS_NOEXCEPT;

/* Opens a frame; no other may be open. NULL with ENOMEM. O(1). */
PS_API struct ps_ring_frame *ps_ring_begin(struct ps_ring *ring);

/* Closes the open frame: its blocks are final, and it may be released from now on. O(1). */
PS_API void ps_ring_seal(struct ps_ring *ring) PS_NOEXCEPT;

/*
 * Drops a sealed frame and all its blocks. Any thread, once per frame; NULL: nothing. The thread's
 * accesses to the blocks are complete when their memory is reused. No lock; O(chunks of the frame).
 * Preserves errno.
 */
PS_API void ps_ring_release(struct ps_ring_frame *frame) PS_NOEXCEPT;

/* The library's own: the slow halves of the functions below. */
PS_API void *ps_ring_alloc_slow(struct ps_ring *ring, size_t bytes, size_t align);

/* A block of the open frame, aligned to `align`, any power of two. O(1), without atomics; the chunk
 * list once per chunk, the source when no chunk was drained. */
PS_MALLOC static inline void *ps_ring_alloc_aligned(struct ps_ring *ring, size_t bytes,
                                                    size_t align) {
    char *block;
    if (ps_bump(&ring->top, ring->end, bytes, align, &block)) {
        return block;
    }
    return ps_ring_alloc_slow(ring, bytes, align);
}

/* The same, aligned to PS_ALIGN_DEFAULT. */
PS_MALLOC static inline void *ps_ring_alloc(struct ps_ring *ring, size_t bytes) {
    return ps_ring_alloc_aligned(ring, bytes, PS_ALIGN_DEFAULT);
}

/* The same as ps_ring_alloc, zeroed. */
PS_API PS_MALLOC void *ps_ring_zalloc(struct ps_ring *ring, size_t bytes);

/*
 * Changes the size of a block of the open frame; contents are preserved up to the smaller size. In
 * place when it shrinks, or when it is the newest block and the chunk has room; else a new block,
 * and the old one remains until the release. old_bytes: as it was allocated. align: of the result.
 * NULL with ENOMEM: the block is as it was. block NULL: allocates. O(1), or O(old_bytes).
 */
PS_API void *ps_ring_realloc_aligned(struct ps_ring *ring, void *block, size_t old_bytes,
                                     size_t new_bytes, size_t align);

/* The same, aligned to PS_ALIGN_DEFAULT. */
static inline void *ps_ring_realloc(struct ps_ring *ring, void *block, size_t old_bytes,
                                    size_t new_bytes) {
    return ps_ring_realloc_aligned(ring, block, old_bytes, new_bytes, PS_ALIGN_DEFAULT);
}

/* A position in a frame, to rewind to. The fields are the library's own. */
struct ps_ring_checkpoint {
    struct ps_ring_frame *frame;
    struct ps_ring_chunk *chunk;
    char *top;
};

/* Seals the open frame and remembers where it ended. O(1). */
PS_API struct ps_ring_checkpoint ps_ring_checkpoint(struct ps_ring *ring) PS_NOEXCEPT;

/*
 * Drops all frames begun since the checkpoint, the open one included, and opens the frame of the
 * checkpoint again where it was sealed. That frame must not be released; frames since then may have
 * been, but no thread may be about to. A checkpoint may be used once. O(frames begun since).
 */
PS_API void ps_ring_rewind(struct ps_ring *ring,
                           const struct ps_ring_checkpoint *checkpoint) PS_NOEXCEPT;

/* Collects the frames that other threads have released, and returns spare chunks to the source
 * until at most keep_bytes of them are left. The chunk in use, if it is longer than that and no
 * frame is in it, is a spare one. Returns the number of bytes returned. O(spare
 * chunks). */
PS_API size_t ps_ring_trim_to(struct ps_ring *ring, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_ring_trim_to")
PS_API size_t ps_ring_trim(struct ps_ring *ring, size_t keep_bytes) PS_NOEXCEPT;

/* The name of the options, or "ring". */
PS_API const char *ps_ring_name(const struct ps_ring *ring) PS_NOEXCEPT;

/* Verifies what PS_DEBUG=check does at a release, of the open frame, and changes nothing; without
 * it does nothing. A breach ends the program with a line. O(blocks of the frame). */
PS_API void ps_ring_check(struct ps_ring *ring) PS_NOEXCEPT;

/* Makes the calling thread the owner that PS_DEBUG=check expects. */
PS_API void ps_ring_adopt(struct ps_ring *ring) PS_NOEXCEPT;

/* Lists the ring in the registry of poolshim/registry.h, until it is destroyed; does nothing if it
 * is listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_ring_enlist(struct ps_ring *ring) PS_NOEXCEPT;

struct ps_ring_stats {
    size_t chunk_bytes; /* taken from the source and not returned */
    size_t chunk_count;
    size_t spare_bytes; /* of these: drained, retained for reuse */
    size_t frame_count; /* begun and not released, the open one included */
};
/* First collects released frames. Concurrent releases may count or not. O(chunks + frames that
 * share a chunk with a live one). */
PS_API void ps_ring_stats(struct ps_ring *ring, struct ps_ring_stats *stats) PS_NOEXCEPT;

/*
 * Draws the chunks in their order, oldest first, and which part of each the frames have: a frame
 * that nothing releases is the # before many -. A line for each chunk, whose cells are 1/64 of it:
 *
 *     ring ring: 131072 bytes in 2 chunks, 0 of them spare; 2 frames
 *         0x7f5c3b400000    65536 |###-------------------------------------------| tail
 *         0x7f5c3b420000    65536 |----oo........................................| head
 *
 * Collects released frames first, as ps_ring_stats. For the owner. O(chunks + frames); stdio.
 */
PS_API void ps_ring_dump(struct ps_ring *ring, FILE *out);

/*
 * The ring of the calling thread, made at its first use with default options: in place of a
 * thread-local stack where the memory goes to other threads. When the thread ends the ring is
 * destroyed as by ps_ring_destroy: its sealed frames remain valid until they are released. NULL
 * with ENOMEM. O(1).
 */
PS_API struct ps_ring *ps_r_ring(void);

/* As the function of the same name with ps_ring_ and ps_r_ring(). */
PS_API struct ps_ring_frame *ps_r_begin(void);
PS_API void ps_r_seal(void) PS_NOEXCEPT;

PS_MALLOC static inline void *ps_r_alloc_aligned(size_t bytes, size_t align) {
    struct ps_ring *ring = ps_r_ring();
    return ring != NULL ? ps_ring_alloc_aligned(ring, bytes, align) : NULL;
}

PS_MALLOC static inline void *ps_r_alloc(size_t bytes) {
    return ps_r_alloc_aligned(bytes, PS_ALIGN_DEFAULT);
}

PS_API PS_MALLOC void *ps_r_zalloc(size_t bytes);

static inline void *ps_r_realloc(void *block, size_t old_bytes, size_t new_bytes) {
    struct ps_ring *ring = ps_r_ring();
    return ring != NULL ? ps_ring_realloc(ring, block, old_bytes, new_bytes) : NULL;
}

static inline void ps_r_release(struct ps_ring_frame *frame) PS_NOEXCEPT { ps_ring_release(frame); }

PS_END_DECLS

#endif
