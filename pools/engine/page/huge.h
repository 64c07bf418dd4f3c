/* SPDX-License-Identifier: MIT */
/*
 * The policy for transparent huge pages: which memory is advised to use them, which refuses them,
 * and which allocations are dense, that is, expected to be filled. In huge pages the first touch is
 * four times cheaper per byte, but each touch allocates 2 MiB.
 *
 *   dense slabs, dense chunks of pools   unless POOLSHIM_HUGE=off, in arenas of their own kind
 *   all other memory in arenas           with POOLSHIM_HUGE=thp only
 *   mappings of large blocks             as the system has it, unless POOLSHIM_HUGE=off
 *   purged parts of huge pages           refused until the whole page is free, see
 *                                        ps_huge_keep_holes
 *   sparsely touched tables              refused
 *   chunks of ps_source_mmap             if the pool asks for them
 *   all of it            none with POOLSHIM_HUGE=hugetlb, which has other huge pages: hugetlb.h
 *   slabs and arenas near a limit        not requested, see retention.h
 *
 * Mechanisms are elsewhere: arena.c reserves arenas of whole huge pages, page_cache.c searches the
 * runs of both kinds in its order, purge.c cuts purges at huge pages. Callers: those, page_map.c,
 * heap/, record/, pools/pages, pools/common. Any thread, no locks.
 */
#ifndef PS_PAGE_HUGE_H
#define PS_PAGE_HUGE_H

#include "pools/engine/base/config.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/page/retention.h"

#define PS_HUGE_PAGE_BYTES ((size_t)2 << 20)

/*
 * Bytes in the slabs of one class from which on further slabs are dense: such a class
 * usually grows further and is filled. With a lower bound, dense slabs would cost 2 MiB per class
 * of each small thread.
 */
#define PS_HUGE_CLASS_BYTES ((size_t)4 << 20)

/*
 * The largest blocks of dense slabs: touching one makes its pages resident, and programs usually
 * touch only the head of larger ones, as of buffers. With all classes from 1 MiB on, 500 MiB were
 * resident where 33 were touched.
 */
#define PS_HUGE_BLOCK_BYTES 4096

/* Lengths of dense chunks. Programs may take longer ones only to reserve their addresses. */
#define PS_HUGE_CHUNK_GRANULES_LEAST (PS_HUGE_PAGE_BYTES >> PS_GRANULE_SHIFT)
#define PS_HUGE_CHUNK_GRANULES_MOST ((size_t)4096) /* 256 MiB */

/* In larger heaps the kernel may merge purged huge pages again: each split page needs a mapping,
 * and a process may have 65,530. */
#define PS_HUGE_HOLES_GRANULES_LIMIT ((uint64_t)16 << 30 >> PS_GRANULE_SHIFT)

/* Sets the policy. Called once, before the first arena. */
void ps_huge_start(enum ps_huge wanted);

/* True when dense, or other, memory in arenas should use huge pages: of a run, by its is_huge. */
bool ps_huge_is_wanted(bool is_dense);

/* True when the next slab of a class is dense. slabs_bytes: of the class's slabs.
 */
static inline bool ps_huge_is_dense_class(size_t block_bytes, size_t slabs_bytes) {
    return slabs_bytes >= PS_HUGE_CLASS_BYTES && block_bytes <= PS_HUGE_BLOCK_BYTES &&
           ps_retention_is_usual();
}

/* True when a chunk of this length is dense. */
static inline bool ps_huge_is_dense_chunk(size_t granules) {
    return granules >= PS_HUGE_CHUNK_GRANULES_LEAST && granules <= PS_HUGE_CHUNK_GRANULES_MOST;
}

/* Advises huge pages for memory of an arena, or against them, by the policy. Best effort. */
void ps_huge_advise(char *base, size_t bytes, bool is_dense);

/* Advises against huge pages for a fresh mapping of a block, if the policy is off. Best effort.
 */
void ps_huge_advise_mapping(char *base, size_t bytes);

/* Advises huge pages on a program's request, whatever the policy. Best effort. */
static inline void ps_huge_request(char *base, size_t bytes) {
    ps_os_advise_huge(base, bytes, true);
}

/* Advises against huge pages, for a table that is touched sparsely. Best effort. */
static inline void ps_huge_refuse(void *base, size_t bytes) {
    ps_os_advise_huge(base, bytes, false);
}

/* True when purged huge pages are to remain split, with arenas of this length in all. */
static inline bool ps_huge_keeps_holes(uint64_t arena_granules) {
    return arena_granules <= PS_HUGE_HOLES_GRANULES_LIMIT;
}

/*
 * Advises the system after a purge of dense memory: huge pages that the run shares with others
 * remain split into small pages, and those within the run may become whole again. Otherwise
 * khugepaged makes a huge page of any range with one resident page, and so allocates memory for
 * every purged hole in it: over an hour redis grew by 12 MiB from 130 that way.
 */
void ps_huge_keep_holes(char *base, size_t granules);

/* The purged run has become a part of a clean one: huge pages at its ends that it shared, and that
 * the clean one fills, may become whole again, too. */
void ps_huge_join_holes(char *base, size_t granules, char *clean_base, size_t clean_granules);

#endif
