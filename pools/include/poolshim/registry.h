/* SPDX-License-Identifier: MIT */
/*
 * registry.h - the pools of a program by name: the memory of each, and its leaks.
 *
 *     struct ps_region_options options = {.chunks.name = "sessions"};
 *     struct ps_region *sessions = ps_region_create(&options);
 *     ps_region_enlist(sessions);
 *     ...
 *     ps_dump_stats(stderr); // in any thread, at any time
 *
 * A pool is listed once ps_<family>_enlist is called for it (ps_pool_enlist, ps_pools_enlist,
 * ps_region_enlist, ps_stack_enlist, ps_fifo_enlist, ps_ring_enlist, ps_slots_enlist,
 * ps_bounded_enlist), until it is destroyed. Pools that are not listed cost nothing more for it
 * than a comparison per chunk. A listed pool costs 128 bytes, a lock when it is listed and
 * destroyed, and a few stores per chunk; its allocations and frees are as before.
 *
 * PS_DEBUG=leaks lists every pool of these families and every intrusive pool when it is made, and
 * writes a line to stderr for each leak:
 *
 *     poolshim: leak: pool 'nodes' destroyed with 3 live blocks of 72 bytes
 *     poolshim: leak: slots 'users' has 1 live block of 40 bytes at exit
 *     poolshim: leak: region 'request' was not destroyed before exit: 8192 bytes in 2 chunks
 *
 * At destroy: pools, pools of all sizes, slots, bounded pools that have live blocks. Objects that a
 * ps::object_pool destroys, or that a reset forgets, are no leak. At exit, after the program's
 * handlers of atexit and the destructors of its static objects: live blocks of pools that still
 * exist, and regions, stacks, FIFOs, rings, bounded and intrusive pools that do; a destroyed FIFO,
 * ring or intrusive pool, too, while it has live blocks. Stacks and rings of threads are not
 * listed. Live blocks are counted at exit only in a process of one thread, since another one may
 * use the pool; otherwise the line has the pool's memory. The words of PS_DEBUG may be combined:
 * PS_DEBUG=leaks,check.
 *
 * Not listed are slices, pages, TLSF, arenas, shared heaps, fixed pools and retired objects: they
 * have statistics of their own.
 *
 * Threads: any thread may call everything here at any time, except in a signal handler. A child of
 * fork has the list of the process. Names are copied when a pool is listed, up to 39 bytes.
 */
#ifndef POOLSHIM_REGISTRY_H
#define POOLSHIM_REGISTRY_H

#include <poolshim/common.h>
#include <stdio.h>

PS_BEGIN_DECLS

/* A listed pool, as it was at a moment during the call that reports it. */
struct ps_pool_info {
    const char *family;   /* "region", "pool", ...; a constant */
    const char *name;     /* of its options, else its family's; valid until the callback returns */
    const void *pool;     /* the argument of the family's functions; it may have been destroyed
                             since */
    size_t total_bytes;   /* of its chunks */
    size_t peak_bytes;    /* the maximum of total_bytes since it was listed */
    size_t chunk_count;   /* number of these chunks */
    unsigned thread;      /* the system's number of the thread that listed it */
    unsigned long number; /* of the listing, counted from 1: unlike an address, never used again */
};

/*
 * Calls visit for each listed pool, in the order of listing. Pools that are listed or destroyed
 * during the call, by visit too, may be visited or not. visit runs without a lock: it may create
 * and destroy pools, call functions of this header, throw and longjmp. Only the thread that uses a
 * pool may use info->pool. visit: not NULL. O(listed pools), a lock for each eight.
 */
PS_API void ps_pools_each(void (*visit)(const struct ps_pool_info *info, void *context),
                          void *context);

/*
 * Writes a table of all listed pools, a line each: family, name, bytes of its chunks, the peak of
 * that, chunks, thread; and a line with the pages of the page cache, ps_pages_stats. file: open for
 * writing, not NULL. False: a write failed, errno as the C library set it. O(listed pools); takes
 * the file's lock for each line.
 */
PS_API bool ps_dump_stats(FILE *file);

PS_END_DECLS

#endif
