/* SPDX-License-Identifier: MIT */
/*
 * tlsf.h - blocks of any size in bounded time, on the caller's memory.
 *
 * For programs that need a bound on the time of each allocation: audio, control loops, memory that
 * a device shares, a heap inside one huge page. Free blocks lie on lists by size; two levels of
 * bits find the first list whose blocks are all large enough; a freed block is merged with its
 * neighbours at once. No search, no loop over blocks, no system call: whatever the state of the
 * pool, by callgrind on x86-64 with gcc 12 -O2 (tests/pools/test_pools_tlsf.py checks it),
 *
 *     ps_tlsf_alloc             at most 220 instructions (140 unless the pool is nearly full)
 *     ps_tlsf_free              at most 200
 *     ps_tlsf_alloc_aligned     at most 270
 *     ps_tlsf_realloc, in place at most 180
 *
 * A pool that may grow takes from its source when nothing fits, in the time that the source takes.
 * PS_DEBUG and checked builds check more and are not bounded.
 *
 *     static char memory[1 << 20];
 *     struct ps_tlsf *tlsf = ps_tlsf_init(memory, sizeof memory, NULL);
 *     struct voice *voice = ps_tlsf_alloc(tlsf, sizeof *voice);
 *     ...
 *     ps_tlsf_free(tlsf, voice);
 *
 * The whole of it is in pools/examples/tlsf.c.
 *
 * Cost in memory: 8 bytes for each block, blocks are multiples of 16, the smallest is 32 with 24
 * for the caller. The pool's record takes 0.4 KiB and 0.25 KiB for each power of two between 512
 * bytes and the largest block (a pool of 64 KiB: 2.3 KiB; without a limit: 10 KiB). A request that
 * does not find its size takes from the next 1/32 of a power of two and returns the rest, so a
 * request above 1 KiB may fail though a block that is up to 3 % larger is free, unless it is one of
 * the first four of its list. Fragmentation is that of a good fit: Masmano et al. report less than
 * 15 % on average, 25 % at worst for their loads.
 *
 * Threads: one at a time per pool; put a lock around it. Reset and destroy end all blocks.
 *
 * Misuse detected in every build: a second free until the memory is allocated again, most pointers
 * that are no blocks of the pool, most heads overwritten (each head carries 16 bits of the pool's
 * own, checked in free, realloc, usable_size and walk), an overwritten head after a block that is
 * freed or resized, links and sizes of free blocks that lead outside the pool's memory or do not
 * lead back. With PS_DEBUG=check also: pointers outside the pool, two threads at once.
 * ps_tlsf_check() checks everything, and does not abort.
 * With PS_DEBUG=malloc each block comes from malloc, and the pool's memory is unused.
 *
 * After M. Masmano, I. Ripoll, A. Crespo and J. Real: TLSF, a new dynamic memory allocator for
 * real-time systems, ECRTS 2004. The range operations and the visitor follow Matthew Conte's tlsf.
 */
#ifndef POOLSHIM_TLSF_H
#define POOLSHIM_TLSF_H

#include <poolshim/common.h>
#include <poolshim/source.h>

PS_BEGIN_DECLS

struct ps_tlsf;

/* All zero is the default. */
struct ps_tlsf_options {
    struct ps_chunk_options chunks; /* for pools that grow; first_bytes 0: 64 KiB, max_bytes 0: 32
                                       MiB. oom is called by all. */
    size_t largest_bytes;           /* no block and no range is longer; up to 2^46, rounded up to a
                                       power of two. 0: ps_tlsf_init: the length of the buffer,
                                       ps_tlsf_create: 2^46. Decides how long the record is. */
    bool can_grow;                  /* ps_tlsf_init: takes from chunks.source when nothing fits */
};

/*
 * A pool in the caller's memory: its record at the start, then its first range. buffer: any
 * alignment, not NULL. bytes: up to 2^46. options: NULL for the defaults, not retained. NULL and
 * EINVAL when the buffer is too small for the record (64 KiB is plenty) or an argument is out of
 * range. The memory must outlive the pool; a pool that does not grow needs no ps_tlsf_destroy,
 * except for the marks of AddressSanitizer. O(1), and clears the record.
 */
PS_API struct ps_tlsf *ps_tlsf_init(void *buffer, size_t bytes,
                                    const struct ps_tlsf_options *options) PS_NOEXCEPT;

/*
 * A pool in chunks of a source, that grows. options: NULL for the defaults: the page cache. NULL
 * and ENOMEM when the source refuses, or EINVAL.
 */
PS_API struct ps_tlsf *ps_tlsf_create(const struct ps_tlsf_options *options) PS_NOEXCEPT;

/* Ends all blocks and gives chunks back to the source; ranges of the caller are the caller's again.
 * tlsf: NULL does nothing. O(ranges). Preserves errno. */
PS_API void ps_tlsf_destroy(struct ps_tlsf *tlsf) PS_NOEXCEPT;

/* Frees all blocks; retains all ranges. O(ranges), and clears the record. */
PS_API void ps_tlsf_reset(struct ps_tlsf *tlsf) PS_NOEXCEPT;

/*
 * Adds memory of the caller. memory: any alignment. bytes: from 128 to the largest block of the
 * pool, else false and EINVAL. Blocks never span two ranges, even if they touch. O(1).
 */
PS_API bool ps_tlsf_add(struct ps_tlsf *tlsf, void *memory, size_t bytes) PS_NOEXCEPT;

/*
 * Removes memory that ps_tlsf_add has added. False and EBUSY while a block of it is in use; EINVAL
 * when it was not added; nothing has changed. O(ranges).
 */
PS_API bool ps_tlsf_remove(struct ps_tlsf *tlsf, void *memory) PS_NOEXCEPT;

/* Returns chunks without a used block to the source until at most keep_bytes of them are left; the
 * result is their bytes. O(ranges). */
PS_API size_t ps_tlsf_trim_to(struct ps_tlsf *tlsf, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_tlsf_trim_to(tlsf, 0)")
PS_API size_t ps_tlsf_trim(struct ps_tlsf *tlsf) PS_NOEXCEPT;

/*
 * A block of at least `bytes`, aligned to 16, contents not defined. bytes 0: a block of its own.
 * NULL and ENOMEM when nothing fits and the pool does not grow, or the size is beyond the largest
 * block; the pool is as it was. Ends by ps_tlsf_free, reset or destroy. O(1).
 */
PS_API PS_MALLOC void *ps_tlsf_alloc(struct ps_tlsf *tlsf, size_t bytes) PS_NOEXCEPT;

/*
 * As ps_tlsf_alloc, at a multiple of `align`, any power of two; else NULL and EINVAL. Memory before
 * the block remains free. Searches for bytes + align, and so may fail although an aligned block
 * would fit. O(1).
 */
PS_API PS_MALLOC void *ps_tlsf_alloc_aligned(struct ps_tlsf *tlsf, size_t bytes,
                                             size_t align) PS_NOEXCEPT;

/*
 * Changes the length of a block: shorter always in place; longer in place if the memory after it is
 * free, else by a new block, a copy and a free. payload: NULL allocates. bytes 0: the smallest
 * block, not a free. A new block is aligned to 16, whatever the old one was; a resize in place
 * preserves the alignment. NULL and ENOMEM: the old block is as it was. O(1), or O(bytes) for the
 * copy.
 */
PS_API __attribute__((warn_unused_result)) void *
ps_tlsf_realloc(struct ps_tlsf *tlsf, void *payload, size_t bytes) PS_NOEXCEPT;

/*
 * The same for a result at a multiple of `align`, any power of two; else NULL and EINVAL. In place
 * as there if the block is so aligned already, also where it was allocated with less. O(1), or
 * O(bytes).
 */
PS_API __attribute__((warn_unused_result)) void *ps_tlsf_realloc_aligned(struct ps_tlsf *tlsf,
                                                                         void *payload,
                                                                         size_t bytes,
                                                                         size_t align) PS_NOEXCEPT;

/* payload: of this pool, or NULL, which does nothing. O(1). Preserves errno. */
PS_API void ps_tlsf_free(struct ps_tlsf *tlsf, void *payload) PS_NOEXCEPT;

/* Bytes that may be used of a block, at least the requested ones; 0 for NULL. O(1). */
PS_API size_t ps_tlsf_usable_size(const struct ps_tlsf *tlsf, const void *payload) PS_NOEXCEPT;

/* True when the address lies in a range of the pool. O(ranges). */
PS_API bool ps_tlsf_owns(const struct ps_tlsf *tlsf, const void *pointer) PS_NOEXCEPT;

/* As in the options. */
PS_API const char *ps_tlsf_name(const struct ps_tlsf *tlsf) PS_NOEXCEPT;

/*
 * Calls visit for every block, used or free, range by range, in the order of addresses. The
 * visitor may not change the pool; it may leave by a jump or an exception. O(blocks).
 */
typedef void ps_tlsf_visitor(void *context, void *payload, size_t bytes, bool is_used);
PS_API void ps_tlsf_walk(const struct ps_tlsf *tlsf, ps_tlsf_visitor *visit, void *context);

/* Checks all heads, lists and bits: NULL when they agree, else a description of the fault, in
 * English. O(blocks). */
PS_API const char *ps_tlsf_check(const struct ps_tlsf *tlsf) PS_NOEXCEPT;

struct ps_tlsf_stats {
    size_t range_count;
    size_t range_bytes; /* together, without the record */
    size_t chunk_bytes; /* from the source */
    size_t used_count;  /* blocks */
    size_t used_bytes;  /* usable, of used blocks */
    size_t free_count;
    size_t free_bytes;         /* usable, of free blocks */
    size_t largest_free_bytes; /* a request of this size may need a bit more */
};
PS_API void ps_tlsf_stats(const struct ps_tlsf *tlsf, struct ps_tlsf_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
