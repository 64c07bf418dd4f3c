/* SPDX-License-Identifier: MIT */
/*
 * pages.h - runs of pages: the base of every pool, usable by itself.
 *
 * Pages come from large reserved ranges, cost no system call in the steady state and return to the
 * system some time after they were freed. Each thread caches a few freed runs of up to 1 MiB (its
 * magazine), the rest is shared. Any part of a run may be freed by itself, since the caller passes
 * the length. When libpoolshim.so is preloaded, these functions are the preloaded library's, so
 * that the program's malloc and its pools share one cache.
 *
 *     char *table = ps_pages_zalloc(100000, 4096);
 *     ps_pages_free(table + 40960, 100000 - 40960);
 *     ps_pages_free(table, 40960);
 *
 * Any thread may call everything here at any time, also the destructors of thread-specific data and
 * the child of a fork; signal handlers may not. Pages may be freed by another thread than the one
 * that allocated them. A page is PS_PAGE_BYTES, whatever the system's is.
 *
 * Runs of up to 15 pages share granules of 64 KiB, with a bitmap of their free pages; from 2 MiB
 * on, runs lie in huge pages where the system has them. Magazines over a depot are those of Bonwick
 * and Adams (2001), blocks in bitmaps are a buddy system (Knowlton 1965).
 */
#ifndef POOLSHIM_PAGES_H
#define POOLSHIM_PAGES_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

#define PS_PAGE_BYTES PS_CAST(size_t, 4096)

/*
 * A run of pages of at least `bytes`. bytes: rounded up to pages; 0 is one page. align: power of
 * two up to 2 MiB, less than a page means a page. Contents are not defined. NULL: ENOMEM, or EINVAL
 * for a bad align. The caller frees them, whole or in parts. Lengths up to 1 MiB: O(1), from the
 * magazine, without lock or atomic. A magazine has a bin for each length up to 64 KiB. Above, a bin
 * for each quarter of a power of two caches runs of the length last freed. A length that is not in
 * the magazine costs a lock, and a cache line for each 64 KiB; lengths that alternate in one bin
 * miss, too. A system call only when address space must be reserved, and for lengths above 2 GiB,
 * which are mappings of their own.
 */
PS_API PS_MALLOC void *ps_pages_alloc(size_t bytes, size_t align) PS_NOEXCEPT;

/* The same, zeroed; free of cost where the pages are known to be zero. */
PS_API PS_MALLOC void *ps_pages_zalloc(size_t bytes, size_t align) PS_NOEXCEPT;

/*
 * Frees `bytes`, rounded up to pages, from `pages` on: a whole run or any pages of one; the rest
 * remains allocated. NULL: nothing. Preserves errno. A detected second free, or free of pages that
 * are not allocated, aborts: "poolshim: double free of pages", "poolshim: free of pages that are
 * not allocated", with the address. Checked builds detect all. Cost: as the allocation.
 */
PS_API void ps_pages_free(void *pages, size_t bytes) PS_NOEXCEPT;

/*
 * Lengthens a run in place. old_bytes, new_bytes: rounded up to pages. The contents of added pages
 * are undefined. False when the pages after the run are not free; nothing has changed, nor errno.
 * When new_bytes is not more than old_bytes, true, and nothing has changed. A lock.
 */
PS_API bool ps_pages_extend(void *pages, size_t old_bytes, size_t new_bytes) PS_NOEXCEPT;

/* The maximum bytes of each thread's magazine. Default 1 MiB; 0 turns magazines off. Applies to all
 * threads, from their next free into the magazine. At most 64 runs of a length. */
PS_API void ps_pages_magazine_limit(size_t bytes) PS_NOEXCEPT;

/*
 * Empties the caller's magazine and releases free memory to the system, except about keep_bytes.
 * Returns the bytes released. Without it, memory that was free for a second is released
 * gradually, while the program allocates (POOLSHIM_PURGE_DELAY_MS, under a preloaded poolshim).
 * Cost: proportional to free memory, and system calls.
 */
PS_API size_t ps_pages_trim_to(size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_pages_trim_to")
PS_API bool ps_pages_trim(size_t keep_bytes) PS_NOEXCEPT;

/*
 * Bounds the free memory that the page cache retains for reuse to about `bytes`. This call releases
 * the excess; afterwards each free of a run of 64 KiB or more releases excess at once, not after
 * the delay. 0: retains nothing; SIZE_MAX, the default: no bound but the delay. Magazines
 * (ps_pages_magazine_limit) and free pages of partly used granules are not counted. Under a
 * preloaded libpoolshim.so, the program's malloc shares this cache. Any thread. Cost: as
 * ps_pages_trim_to; afterwards a lock and, beyond the bound, a system call per free of such a run.
 */
PS_API void ps_pages_cache_limit(size_t bytes) PS_NOEXCEPT;

/* A snapshot: each figure is right for some moment during the call. */
struct ps_pages_stats {
    size_t used_bytes;     /* allocated by all threads, and not freed */
    size_t magazine_bytes; /* in the caller's magazine */
    size_t dirty_bytes;    /* free, shared, resident */
    size_t reserved_bytes; /* address space */
};
PS_API void ps_pages_stats(struct ps_pages_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
