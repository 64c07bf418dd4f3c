/* SPDX-License-Identifier: MIT */
/*
 * heap.h - heaps as objects, of a preloaded poolshim: each has addresses, a limit and counts of its
 * own, and is destroyed with all its blocks at once.
 *
 * As in poolshim.h, the functions are weak references, which the preloaded libpoolshim.so or the
 * linked libpoolshim.a fills in. Without it they are null, and poolshim_heaps_are_there() says so;
 * dlsym finds them, too:
 *
 *     #include <poolshim/heap.h>
 *     #include <stdlib.h>
 *     #include <string.h>
 *
 *     int main(void) {
 *         struct poolshim_heap_options options = {
 *             .bytes = sizeof options, .name = "session", .limit_bytes = 1 << 20};
 *         if (!poolshim_heaps_are_there()) {
 *             return 0;
 *         }
 *         poolshim_heap *heap = poolshim_heap_create(&options);
 *         char *text = heap != NULL ? poolshim_heap_alloc(heap, 100) : NULL;
 *         if (text == NULL) {
 *             return 1;
 *         }
 *         strcpy(text, "free, realloc and malloc_usable_size serve blocks of heaps, too");
 *         free(text);
 *         return poolshim_heap_destroy(heap);
 *     }
 *
 * A heap is a partition of the heap of malloc: no page of it serves malloc, or another heap, from
 * its creation to its end, and no page of malloc's becomes one of a heap's. So a write through a
 * stale pointer into a heap hits blocks of that heap alone. docs/heaps.md has the guarantees, the
 * costs and what the modes of the library do.
 *
 * A heap is named by a value, not by an address of memory. Values of heaps that have ended, and
 * others that never were one, are recognised: a function that gets one fails with EINVAL. All
 * functions: any thread, at any time; not in signal handlers. A heap costs 1 KiB, and 256 bytes and
 * a page or more for each size class that it uses; its blocks are rounded up to the size classes of
 * malloc, and to pages above 64 KiB.
 */
#ifndef POOLSHIM_HEAP_H
#define POOLSHIM_HEAP_H

#include <poolshim/poolshim.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- life ---- */

typedef struct poolshim_heap poolshim_heap;

/* New fields come at the end; 0 is the default of each. */
struct poolshim_heap_options {
    size_t bytes;         /* sizeof(struct poolshim_heap_options) */
    const char *name;     /* for statistics: copied, the first 31 bytes; NULL: none */
    uint64_t limit_bytes; /* of live blocks, as poolshim_heap_stats counts them; 0: no limit */
};

/*
 * Creates a heap without blocks. options: NULL for the defaults.
 *
 * Returns the heap, for poolshim_heap_destroy or poolshim_heap_delete; or NULL with errno set:
 * EINVAL a limit of 1 to 4095 bytes, or bytes less than 8; ENOTSUP an option that this library does
 * not have; ENOMEM; EAGAIN 65536 heaps exist, or libpoolshim.so is not relocated yet. O(1).
 */
POOLSHIM_API poolshim_heap *poolshim_heap_create(const struct poolshim_heap_options *options);

/*
 * Ends a heap and frees all its blocks, live ones as well; pointers to them are invalid from now
 * on. Their memory returns to the system, their addresses serve later heaps. A later free() of such
 * a block is reported, with the process aborted, unless a later heap has a block there.
 *
 * No other thread may use the heap or one of its blocks during the call. Returns 0, or -1 with
 * errno EINVAL: heap is none, or has ended. Cost: its pages, and a system call for each block above
 * 2 MiB.
 */
POOLSHIM_API int poolshim_heap_destroy(poolshim_heap *heap);

/*
 * Ends a heap with its last block: it allocates nothing any more, its live blocks remain valid, and
 * the free() of the last one returns its memory, which then costs as poolshim_heap_destroy does.
 * The value of the heap is invalid from now on. Returns 0, or -1 with errno EINVAL as above. O(1)
 * while there are blocks.
 */
POOLSHIM_API int poolshim_heap_delete(poolshim_heap *heap);

/* ---- blocks ---- */

/*
 * Allocates a block in a heap; bytes: 0 counts as 1. The contents are undefined, or, by the second
 * one, zero. Aligned to 16 bytes, or to 8 up to 8 bytes; by the third one to align, a power of two.
 *
 * Returns the block, for free() or realloc(), by any thread; or NULL with errno set: ENOMEM beyond
 * the limit of the heap, or memory is exhausted; EINVAL heap is none, or align no power of two.
 * Takes the lock of the size class, and about 500 instructions; may call the system.
 */
POOLSHIM_API void *poolshim_heap_alloc(poolshim_heap *heap, size_t bytes);
POOLSHIM_API void *poolshim_heap_zalloc(poolshim_heap *heap, size_t bytes);
POOLSHIM_API void *poolshim_heap_alloc_aligned(poolshim_heap *heap, size_t bytes, size_t align);

/*
 * Resizes a block, which is in the heap afterwards: one of malloc, or of another heap, moves there.
 * block: NULL, or live, of any origin; bytes: 0 counts as 1. (realloc leaves a block in its heap.)
 *
 * Returns the block, whose address may have changed; or NULL with errno as of poolshim_heap_alloc:
 * the block is unchanged.
 */
POOLSHIM_API void *poolshim_heap_realloc(poolshim_heap *heap, void *block, size_t bytes);

/* The heap of a live block; NULL: it is of none, as one of malloc, or NULL, or its heap was
 * deleted. block: any address. Preserves errno. O(1). */
POOLSHIM_API poolshim_heap *poolshim_heap_of(const void *block);

/* ---- statistics ---- */

/* In bytes, or counts. New fields come at the end. */
struct poolshim_heap_stats {
    size_t bytes; /* of this structure that the library has filled in; the rest is 0 */
    char name[32];
    uint64_t live_bytes; /* allocated and not freed, at the sizes of the blocks */
    uint64_t live_count;
    uint64_t made_count;    /* blocks allocated so far */
    uint64_t peak_bytes;    /* the most live_bytes so far */
    uint64_t limit_bytes;   /* 0: none */
    uint64_t refused_count; /* requests beyond the limit */
    uint64_t mapped_bytes;  /* addresses of its slabs and longer blocks: not all are resident */
    uint64_t free_bytes;    /* freed runs of pages that are resident, for about the purge delay */
};

/*
 * Reads the figures of a heap. stats: filled in; bytes: sizeof *stats, of the program's header, as
 * of poolshim_stats_read.
 *
 * Returns 0, or -1 with errno EINVAL: heap is none, stats NULL, or bytes less than 8. O(1).
 */
POOLSHIM_API int poolshim_heap_stats_read(poolshim_heap *heap, struct poolshim_heap_stats *stats,
                                          size_t bytes);

/* 1 when the functions of this header are there, otherwise 0. O(1). */
static inline int poolshim_heaps_are_there(void) { return poolshim_heap_create != 0; }

#ifdef __cplusplus
}
#endif

#endif
