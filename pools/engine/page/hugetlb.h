/* SPDX-License-Identifier: MIT */
/*
 * Memory of arenas in huge pages that the system has set aside (POOLSHIM_HUGE=hugetlb). It is apart
 * from the memory that the system shares out page by page, in three ways:
 *
 *   taken whole     an arena of the huge kind is opened by whole pages, and they are all there
 *                   then: a touch without a page ends the process (os.h). When the system refuses,
 *                   the page cache uses a plain arena
 *   returned whole  only a page that is free from end to end is purged: it is closed, and its
 *                   addresses remain in a clean run, without access. Parts are not purged: free
 *                   runs that have no whole page are stuck (page_cache.h), and so are used first
 *   not resident    the system does not count it in RSS, nor POOLSHIM_LIMIT
 *
 * While this is on, a run with is_huge lies in such pages, and no other does; so do mappings of
 * large blocks (heap/mapping.c). The first arena is plain, so that small processes take no page.
 *
 * Callers: arena.c, page_cache.c, purge.c, and the purges of parts of runs. Under the page lock
 * where stated. Calls arena.c and the OS.
 */
#ifndef PS_PAGE_HUGETLB_H
#define PS_PAGE_HUGETLB_H

#include "pools/engine/base/undo.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"

/* Size of the pages; 0: this is off. Constant after the start. */
extern PS_HIDDEN size_t ps_hugetlb_page_bytes;

/* Read from outside the process, too: record/figures.def. */
struct ps_hugetlb_counts {
    uint64_t bytes;   /* of pages taken and not returned */
    uint64_t refused; /* requests for pages that the system refused */
};

extern PS_HIDDEN struct ps_hugetlb_counts ps_hugetlb_x_counts;

/* page_bytes: 0, or a power of two from 2 MiB to 1 GiB. Called once, before the first arena. */
void ps_hugetlb_start(size_t page_bytes);

/* True for a run, or a mapping, in such pages. */
static inline bool ps_hugetlb_has(const struct ps_run *run) {
    return ps_hugetlb_page_bytes != 0 && run->is_huge;
}

/* As ps_os_purge, for a part of a run that is no whole page: false for a run in such pages. */
static inline bool ps_hugetlb_purge(const struct ps_run *run, char *base, size_t bytes) {
    return !ps_hugetlb_has(run) && ps_os_purge(base, bytes);
}

/* Maps such pages for a block: at least `bytes`, rounded up to *length. NULL: the system refuses,
 * or more than an eighth would be unused. Any thread, no lock. */
char *ps_hugetlb_map(size_t bytes, size_t *length);

/* Counts the pages of a mapping that were returned. */
void ps_hugetlb_note_returned(size_t bytes);

/*
 * Opens addresses of an arena that were never open, whole pages: `bytes`, or, where the system has
 * not so many, half of them and so on, down to `needed`. Returns the number of opened bytes; 0: it
 * refuses, and is not asked again for a tenth of a second. *is_lost: the addresses must not be used
 * any more. Page lock.
 */
size_t ps_hugetlb_open_locked(char *base, size_t bytes, size_t needed, bool *is_lost);

/* The first closed page that a range of an arena lies in; NULL: none. Page lock. */
char *ps_hugetlb_closed_in_locked(char *base, size_t granules);

/* Opens a closed page. False, and *is_lost: as above. Page lock. */
bool ps_hugetlb_reopen_locked(char *page, bool *is_lost, struct ps_undo *undo);

/* Granules of a page. */
static inline size_t ps_hugetlb_granules(void) { return ps_hugetlb_page_bytes >> PS_GRANULE_SHIFT; }

/* Number of granules at the start of a range that can be closed, or not, together: a whole page, or
 * a part of one. */
size_t ps_hugetlb_piece(const char *base, size_t granules, bool *is_whole);

/* True when a range has a whole page. */
bool ps_hugetlb_has_whole(const char *base, size_t granules);

/*
 * Notes, before a page is closed or after the system has refused to, whether it is. Noted first, so
 * that a user opens it in any case, in the child of a fork, too. False: so many pages are closed
 * that the process might run out of mappings. Page lock.
 */
bool ps_hugetlb_set_closed_locked(char *page, bool is_wanted, struct ps_undo *undo);

#endif
