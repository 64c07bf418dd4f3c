/* SPDX-License-Identifier: MIT */
/*
 * slice.h - small memory without a pool and without a header: the caller passes the size to free.
 *
 * For structures of a size known to the program, allocated and freed often and by any thread. A
 * slice costs its size rounded up to 16 and nothing else; the usual call is inlined, takes a
 * handful of instructions, no lock and no atomic.
 *
 *     struct point *p = (struct point *)ps_slice_alloc(sizeof *p);
 *     ...
 *     ps_slice_free(sizeof *p, p);
 *
 * Sizes up to 1 KiB are rounded up to 16, up to 4 KiB to 256, above that to pages of pages.h.
 * Slices are aligned to 16; above 4 KiB to a page. Size 0 is a unique pointer.
 *
 * Any thread may free what any thread allocated. Each thread has, for each size, a list of free
 * slices and a second one in reserve: a program that allocates and frees around the edge of one
 * does not go to the shared depot each time, and every visit there moves a whole list. A list is
 * 16 KiB, at least 8 and at most 128 slices. When a thread ends, its lists go to the depot. Lists
 * that lay unused in the depot for a second are taken apart when others come in, and runs that are
 * free as a whole return to the page cache; ps_slice_trim_to does it at once. In the child of a
 * fork, the lists of other threads are lost.
 *
 * A wrong size on free is not detected in ordinary runs and puts the slice on a wrong list.
 * PS_DEBUG=check verifies address and size of every free, and 16 bytes or more after the slice
 * that must not change, and fills the freed slice; PS_DEBUG=malloc makes every slice a malloc
 * block.
 *
 * After GLib's slices (sized free, two magazines over a depot, working set by time) and Bonwick's
 * magazines.
 */
#ifndef POOLSHIM_SLICE_H
#define POOLSHIM_SLICE_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

#define PS_SLICE_INLINE_MAX 1024 /* above, the call is not inlined */
#define PS_SLICE_MAX 4096        /* above, pages */
#define PS_SLICE_BIN_COUNT 77    /* 0; 16 to 1024 by 16; to 4096 by 256 */

/* A free slice; the rest of it has the program's bytes. */
struct ps_slice_link {
    struct ps_slice_link *next;
} __attribute__((may_alias));

/* One thread's slices of one size. The library's own. */
struct ps_slice_bin {
    struct ps_slice_link *first; /* free slices, newest first */
    char *virgin;                /* slices from here to end were never allocated */
    char *end;
    uint32_t room;                /* limit - slices on the list of first */
    uint32_t limit;               /* of a full list */
    size_t bytes;                 /* of a slice */
    struct ps_slice_link *second; /* NULL or a full list */
};

struct ps_slice_cache {
    struct ps_slice_bin bins[PS_SLICE_BIN_COUNT];
};

/* The calling thread's; one with nothing in it and room for nothing before the first call, and in
 * threads and modes that go without. */
extern PS_API __thread struct ps_slice_cache *ps_slice_here
    __attribute__((tls_model("initial-exec")));

/* The slow sides of the inlined functions. */
PS_API void *ps_slice_alloc_slow(size_t bytes) PS_NOEXCEPT;
PS_API void ps_slice_free_slow(size_t bytes, void *slice) PS_NOEXCEPT;

/* Memory of `bytes`, not cleared. NULL: ENOMEM. O(1); rarely a lock, very rarely the system. */
static inline void *ps_slice_alloc(size_t bytes) PS_NOEXCEPT {
    if (__builtin_expect(bytes <= PS_SLICE_INLINE_MAX, 1)) {
        struct ps_slice_bin *bin = &ps_slice_here->bins[(bytes + 15) / 16];
        struct ps_slice_link *slice = bin->first;
        if (slice != NULL) {
            bin->first = slice->next;
            bin->room++;
            return slice;
        }
        char *virgin = bin->virgin;
        if (__builtin_expect(virgin != bin->end, 1)) {
            PS_KNOWN(virgin != NULL);
            bin->virgin = virgin + bin->bytes;
            return virgin;
        }
    }
    return ps_slice_alloc_slow(bytes);
}

/* Frees. bytes: as they were allocated. slice: NULL does nothing. Preserves errno. O(1). */
static inline void ps_slice_free(size_t bytes, void *slice) PS_NOEXCEPT {
    if (__builtin_expect(bytes <= PS_SLICE_INLINE_MAX && slice != NULL, 1)) {
        struct ps_slice_bin *bin = &ps_slice_here->bins[(bytes + 15) / 16];
        uint32_t room = bin->room;
        if (__builtin_expect(room != 0, 1)) {
            struct ps_slice_link *link = (struct ps_slice_link *)slice;
            link->next = bin->first;
            bin->first = link;
            bin->room = room - 1;
            return;
        }
    }
    ps_slice_free_slow(bytes, slice);
}

/* The same, cleared. */
PS_API PS_MALLOC void *ps_slice_zalloc(size_t bytes) PS_NOEXCEPT;

/* A slice with a copy of `bytes` from source. */
PS_API PS_MALLOC void *ps_slice_copy(size_t bytes, const void *source) PS_NOEXCEPT;

/* Frees a list of slices of one size. first: NULL is an empty list. next_offset: where in each
 * slice the pointer to the next one is; the last one's is NULL. O(slices). */
PS_API void ps_slice_free_chain(size_t bytes, void *first, size_t next_offset) PS_NOEXCEPT;

/* For alignments above 16, up to 64 KiB; costs `align` bytes more. EINVAL for a bad align. Free
 * with the same bytes and align. */
PS_API PS_MALLOC void *ps_slice_alloc_aligned(size_t bytes, size_t align) PS_NOEXCEPT;
PS_API void ps_slice_free_aligned(size_t bytes, size_t align, void *slice) PS_NOEXCEPT;

/* Returns free slices to the page cache, in whole runs of 64 KiB, until at most keep_bytes of them
 * are left, of all sizes together; those in runs with a live slice remain. Free slices are the
 * caller's and the depot's, not those in lists of other threads. Fewer are left where one list of
 * 16 KiB has the last slices of several runs. Returns the bytes of the runs. O(free slices +
 * runs). */
PS_API size_t ps_slice_trim_to(size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_slice_trim_to(0)")
PS_API bool ps_slice_trim(void) PS_NOEXCEPT;

struct ps_slice_stats {
    size_t run_bytes;   /* taken from the page cache for slices up to 4 KiB */
    size_t depot_bytes; /* of that, free in the depot, for any thread */
    size_t cache_bytes; /* of that, free in the calling thread */
};
PS_API void ps_slice_stats(struct ps_slice_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
