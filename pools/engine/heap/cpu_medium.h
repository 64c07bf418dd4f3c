/* SPDX-License-Identifier: MIT */
/*
 * Caches per processor of medium blocks (page/medium.h): between the few that each thread keeps
 * (medium_cache.h) and the regions, whose locks threads share. If sizes change from request
 * to request, a thread's own blocks seldom suit; here there is one for most.
 *
 * A cache has a bin for each length up to 16 pages, and eight for each doubling beyond. It may hold
 * one page for each eight requests of the last PS_RETENTION_SCAN_MS that no thread's own blocks
 * served, up to 1 MiB: nothing in a program that asks seldom, enough in one that would take
 * shared locks thousands of times a second. Blocks that were not used for that time return to their
 * regions.
 *
 * A cached block is marked as one that waits in a thread is, by which a second free of it is
 * noticed. Lock: that of the cache, only tried (cpu_lock.h); nothing is called while it is held.
 * Any thread. Callers: medium_cache.c, cpu_return.c.
 */
#ifndef PS_HEAP_CPU_MEDIUM_H
#define PS_HEAP_CPU_MEDIUM_H

#include "pools/engine/heap/cpu_lock.h"
#include "pools/engine/page/medium.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_CPU_MEDIUMS 64 /* processors beyond share them */
#define PS_CPU_MEDIUM_BINS 32
#define PS_CPU_MEDIUM_BLOCKS 8      /* of a bin */
#define PS_CPU_MEDIUM_LONGEST 64    /* pages of a block */
#define PS_CPU_MEDIUM_PAGES 256     /* pages of all blocks */
#define PS_CPU_MEDIUM_ASKS_A_PAGE 8 /* requests that allow a page */

/* Fields marked x_ are read without the lock. x_pages == sum of the pages of all
 * blocks. */
struct ps_cpu_medium {
    PS_ALIGNED(PS_CACHE_LINE) struct ps_cpu_lock lock; /* its parts are the bins */
    uint32_t x_asks;                                   /* requests since the last return */
    uint16_t x_limit;                                  /* pages it may hold */
    uint16_t x_pages;
    uint8_t x_count[PS_CPU_MEDIUM_BINS]; /* blocks of each bin */
    uint8_t low[PS_CPU_MEDIUM_BINS];     /* least count since unused blocks were returned */
    ps_medium_block blocks[PS_CPU_MEDIUM_BINS][PS_CPU_MEDIUM_BLOCKS]; /* the oldest first */
};

/* Made when they are needed. */
extern PS_HIDDEN struct ps_cpu_medium *ps_cpu_x_mediums[PS_CPU_MEDIUMS];

/* The newest block of at least so many pages, and at most an eighth more, of a cache; 0 if there is
 * none. may_make: the cache, if it does not exist. Cost: about 60 instructions, one of them a swap.
 */
ps_medium_block ps_cpu_medium_take(size_t index, size_t pages, bool may_make);

/* Caches those blocks for which there is room, and moves the others to the front. Returns how many
 * those are; they have to return to their regions. */
size_t ps_cpu_medium_put(size_t index, ps_medium_block *blocks, size_t count);

/* Returns the blocks of one cache that were not used since the last time, or all. Returns whether
 * it has any left. */
bool ps_cpu_medium_return(size_t index, bool is_all);

/* True if a cache holds blocks, may hold some, or was asked for any since the last return. */
bool ps_cpu_medium_is_used(size_t index);

/* In the child of a fork, on its only thread: as ps_cpu_return_fork_child. */
void ps_cpu_medium_fork_child(void);

#endif
