/* SPDX-License-Identifier: MIT */
/*
 * pages.h - runs of pages: the base of every pool, usable by itself.
 *
 * Pages come from large reserved ranges, cost no system call in the steady state and go back to the
 * system some time after they were freed. Each thread keeps a few freed runs of the common lengths
 * (its magazine), the rest is shared. Any part of a run may be freed by itself, since the caller
 * says how much it frees. When libpoolshim.so is preloaded, these functions are the preloaded
 * library's, so that the program's malloc and its pools share one cache.
 *
 * Any thread. A page is PS_PAGE_BYTES, whatever the system's is.
 */
#ifndef POOLSHIM_PAGES_H
#define POOLSHIM_PAGES_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

#define PS_PAGE_BYTES ((size_t)4096)

/*
 * Pages of together at least `bytes`. bytes: rounded up to pages; 0 is one page. align: power of
 * two up to 2 MiB, less than a page means a page. Contents are not defined. NULL: ENOMEM, or EINVAL
 * for a bad align. O(1) up to 1 MiB from the magazine, else one lock; a system call only when
 * address space must be reserved.
 */
PS_API PS_MALLOC void *ps_pages_alloc(size_t bytes, size_t align) PS_NOEXCEPT;

/* The same, zeroed; free of cost where the pages are known to be zero. */
PS_API PS_MALLOC void *ps_pages_zalloc(size_t bytes, size_t align) PS_NOEXCEPT;

/* Frees `bytes`, rounded up to pages, from `pages` on: a whole run or any pages of one. Freeing
 * pages twice, or others' pages, aborts where it is noticed. */
PS_API void ps_pages_free(void *pages, size_t bytes) PS_NOEXCEPT;

/* Lengthens a run in place. False when the pages behind it are not free; nothing has changed. */
PS_API bool ps_pages_extend(void *pages, size_t old_bytes, size_t new_bytes) PS_NOEXCEPT;

/* Bytes that each thread's magazine may hold. Default 1 MiB; 0 turns magazines off. Holds for all
 * threads, from their next free on. */
PS_API void ps_pages_magazine_limit(size_t bytes) PS_NOEXCEPT;

/* Empties the caller's magazine and gives what is free back to the system, but about keep_bytes.
 * Returns whether anything went back. */
PS_API bool ps_pages_trim(size_t keep_bytes) PS_NOEXCEPT;

struct ps_pages_stats {
    size_t used_bytes;     /* allocated by all threads, and not freed */
    size_t magazine_bytes; /* in the caller's magazine */
    size_t dirty_bytes;    /* free, shared, hold memory */
    size_t reserved_bytes; /* address space */
};
PS_API void ps_pages_stats(struct ps_pages_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
