/* SPDX-License-Identifier: MIT */
/*
 * fifo.h - blocks that die roughly in the order in which they were born: queues, messages in
 * flight, requests that time out, a sliding window over a stream.
 *
 * A fifo allocates by moving a pointer through a chunk, and counts the live blocks of each
 * chunk. A block has no header: the chunk of a block is found by masking its address. When the last
 * block of a chunk is freed the whole chunk is free. Blocks may be freed in any order; the nearer
 * it is to the order of allocation, the fewer chunks remain in use. One long-lived block retains
 * its chunk (64 KiB), no more.
 *
 *     struct ps_fifo *fifo = ps_fifo_create(NULL);
 *     struct message *message = ps_fifo_alloc(fifo, sizeof *message);
 *     ...
 *     ps_fifo_free(fifo, message);
 *     ps_fifo_destroy(fifo);
 *
 * (pools/examples/fifo.c is a whole program.)
 *
 * Sizes are in bytes, up to PTRDIFF_MAX. Size 0 gives a block of its own that may be freed. NULL
 * with ENOMEM: memory is exhausted or the size is too large, the fifo is as it was. NULL with
 * EINVAL: the alignment is no power of two or above ps_fifo_align_max.
 *
 * Threads: one at a time per fifo; fifos are independent. With PS_DEBUG=check it is the thread that
 * created the fifo, until another calls ps_fifo_adopt.
 *
 * Cost: allocate and free are about ten instructions each, inline. The source is called once per
 * chunk, and not at all while a drained chunk is left: a pattern that allocates and frees in
 * turn never reaches it. Memory is not zeroed, except by ps_fifo_zalloc.
 *
 * Misuse that is found always: allocation from a destroyed fifo. With PS_DEBUG=check (and in
 * checked builds) also: double free, foreign pointers, another thread, a wrong old size, a write
 * over the 48 bytes in front of a block or the 16 or more after it; freed memory is filled with
 * 0xdd. Such a write is found by free and realloc of the block, by trim_to, destroy and
 * ps_fifo_check. With PS_DEBUG=malloc each block is a malloc block.
 *
 * The idea, a bump pointer with a count of live blocks per page, is that of the FIFO allocator of
 * Intersec's lib-common.
 */
#ifndef POOLSHIM_FIFO_H
#define POOLSHIM_FIFO_H

#include <poolshim/bump.h>
#include <poolshim/source.h>

PS_BEGIN_DECLS

/* Options; all zero is the default. */
struct ps_fifo_options {
    /* max_bytes: length and alignment of a chunk, 4 to 64 KiB, rounded down to a power of two;
     * default 64 KiB. first_bytes: length of the first chunk, which then doubles; default:
     * max_bytes. A block above a quarter of a chunk that does not fit gets a chunk of its own. */
    struct ps_chunk_options chunks;
    /* Drained chunks that are retained, in bytes: 0 is the default, 256 KiB; 1 is none. */
    size_t spare_bytes;
};

/* The library's own: at the start of each chunk, which is aligned to the mask of its fifo. */
struct ps_fifo_chunk {
    size_t live_count; /* blocks allocated and not freed */
    char *top;         /* after the newest block; for the current chunk, the fifo has it */
    char *start;       /* of the first block */
    char *end;
    size_t bytes;
    struct ps_fifo_chunk *previous; /* ring of all chunks of the fifo, or list of spare ones */
    struct ps_fifo_chunk *next;
    void *base; /* what the source gave */
};

/* The fields are the library's own. */
struct ps_fifo {
    char *top; /* of the current chunk; top and end are NULL where each call goes out of line */
    char *end;
    struct ps_fifo_chunk *current;
    uintptr_t chunk_mask; /* (address - 1) & chunk_mask: the chunk. 0: calls go out of line */
};

/*
 * A fifo. options: NULL, or read before the call returns. NULL with ENOMEM. The fifo's record is in
 * its first chunk, which is used like the others and freed at the end. O(1).
 */
PS_API struct ps_fifo *ps_fifo_create(const struct ps_fifo_options *options);

/*
 * Ends the fifo for allocation. Drained chunks return to the source now, the others when their
 * last block is freed by ps_fifo_free; the fifo itself disappears with its last block, and until
 * then `fifo` is valid for ps_fifo_free only. NULL: nothing. O(spare chunks).
 */
PS_API void ps_fifo_destroy(struct ps_fifo *fifo) PS_NOEXCEPT;

/* Gives all memory back at once, live blocks included. May follow ps_fifo_destroy while blocks are
 * alive. NULL: nothing. O(chunks). */
PS_API void ps_fifo_destroy_now(struct ps_fifo *fifo) PS_NOEXCEPT;

/* The library's own: the slow halves of the functions below. */
PS_API void *ps_fifo_alloc_slow(struct ps_fifo *fifo, size_t bytes, size_t align);
PS_API void ps_fifo_free_slow(struct ps_fifo *fifo, void *block) PS_NOEXCEPT;
PS_API void ps_fifo_drained(struct ps_fifo *fifo, struct ps_fifo_chunk *chunk) PS_NOEXCEPT;

/*
 * A block of `bytes`, aligned to `align`: a power of two up to ps_fifo_align_max. Blocks lie next
 * to each other as closely as the alignment permits: eight bytes aligned to eight take eight.
 */
PS_MALLOC static inline void *ps_fifo_alloc_aligned(struct ps_fifo *fifo, size_t bytes,
                                                    size_t align) {
    char *block;
    if (ps_bump(&fifo->top, fifo->end, bytes, align, &block)) {
        fifo->current->live_count++;
        return block;
    }
    return ps_fifo_alloc_slow(fifo, bytes, align);
}

/* The same, aligned to PS_ALIGN_DEFAULT. */
PS_MALLOC static inline void *ps_fifo_alloc(struct ps_fifo *fifo, size_t bytes) {
    return ps_fifo_alloc_aligned(fifo, bytes, PS_ALIGN_DEFAULT);
}

/* The same as ps_fifo_alloc, zeroed. */
PS_API PS_MALLOC void *ps_fifo_zalloc(struct ps_fifo *fifo, size_t bytes);

/* Frees a block of this fifo, in any order; also after ps_fifo_destroy. NULL: nothing. Preserves
 * errno. O(1); the source is called only for a chunk beyond the spare ones. */
static inline void ps_fifo_free(struct ps_fifo *fifo, void *block) PS_NOEXCEPT {
    if (block == NULL || fifo->chunk_mask == 0) {
        ps_fifo_free_slow(fifo, block);
        return;
    }
    struct ps_fifo_chunk *chunk =
        (struct ps_fifo_chunk *)(((uintptr_t)block - 1) & fifo->chunk_mask);
    if (--chunk->live_count == 0) {
        if (chunk == fifo->current) {
            fifo->top = chunk->start;
        } else {
            ps_fifo_drained(fifo, chunk);
        }
    }
}

/*
 * Changes the size of a block; its contents are preserved up to the smaller size. In place when it
 * shrinks, or when it is the newest of its chunk and the chunk has room; else a new block, and the
 * old one is freed. old_bytes: as it was allocated. align: of the result. NULL with ENOMEM: the
 * block is as it was. block NULL: allocates. new_bytes 0: a block of size 0. O(1), or O(old_bytes).
 */
PS_API void *ps_fifo_realloc_aligned(struct ps_fifo *fifo, void *block, size_t old_bytes,
                                     size_t new_bytes, size_t align);

/* The same, aligned to PS_ALIGN_DEFAULT. */
static inline void *ps_fifo_realloc(struct ps_fifo *fifo, void *block, size_t old_bytes,
                                    size_t new_bytes) {
    return ps_fifo_realloc_aligned(fifo, block, old_bytes, new_bytes, PS_ALIGN_DEFAULT);
}

/* Returns spare chunks to the source until at most keep_bytes of them are left. The chunk in use,
 * if it is longer than that and without a block, is a spare one. Returns how many bytes that were.
 * O(spare chunks). */
PS_API size_t ps_fifo_trim_to(struct ps_fifo *fifo, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_fifo_trim_to")
PS_API size_t ps_fifo_trim(struct ps_fifo *fifo, size_t keep_bytes) PS_NOEXCEPT;

/* True when `pointer` points into a chunk of the fifo. O(chunks). */
PS_API bool ps_fifo_owns(const struct ps_fifo *fifo, const void *pointer) PS_NOEXCEPT;

/* Largest alignment: the length of a usual chunk. */
PS_API size_t ps_fifo_align_max(const struct ps_fifo *fifo) PS_NOEXCEPT;

/* The name of the options, or "fifo". */
PS_API const char *ps_fifo_name(const struct ps_fifo *fifo) PS_NOEXCEPT;

/* Verifies what PS_DEBUG=check does at a free, of all blocks, and changes nothing; without it does
 * nothing. A breach ends the program with a line. O(blocks). */
PS_API void ps_fifo_check(const struct ps_fifo *fifo) PS_NOEXCEPT;

/* Tells PS_DEBUG=check that the calling thread uses the fifo from now on. */
PS_API void ps_fifo_adopt(struct ps_fifo *fifo) PS_NOEXCEPT;

/* Lists the fifo in the registry of poolshim/registry.h, until it is destroyed; does nothing if it
 * is listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_fifo_enlist(struct ps_fifo *fifo) PS_NOEXCEPT;

struct ps_fifo_stats {
    size_t chunk_bytes; /* taken from the source and not returned */
    size_t chunk_count;
    size_t spare_bytes; /* of these: drained, retained for reuse */
    size_t used_bytes;  /* allocated in chunks with a live block, freed ones included */
    size_t live_count;  /* blocks allocated and not freed */
};
/* O(chunks). */
PS_API void ps_fifo_stats(const struct ps_fifo *fifo, struct ps_fifo_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
