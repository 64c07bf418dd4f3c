/* SPDX-License-Identifier: MIT */
/*
 * Caches per processor: freed blocks of each class, for the next malloc of that class on the same
 * processor, by any thread.
 *
 * In a server one thread frees the blocks of another. Returned to their span, they serve its owner
 * only, which may not run for a while; running threads take fresh memory meanwhile, so memory grows
 * with the number of threads. With these caches it grows with the number of processors, and a block
 * is reused while its lines are still in the processor's cache.
 *
 * A cached block counts as used in its span: neither put nor take changes an account or touches the
 * span, and any thread may free the block again. The page map tells its class (ps_page_map_tag).
 * The block's first word is marked (ps_link_mark): a second free is found by the mark, a write
 * after the free when the block leaves the cache.
 *
 * In a process of more than two threads per processor (ps_background_is_crowded) the caches come
 * first: they serve the small requests of all threads, whose fast path is that of cpu_first.h.
 * Heaps serve the other requests, from spans that all threads share (bin_return.h). In a mode that
 * counts requests, and without restartable sequences, heaps come first. They take blocks from the
 * caches before fresh memory, and put blocks of other heaps there.
 *
 * The limit of a class grows with its use: it doubles each time that the cache of the class is
 * full, or a heap takes a fresh span of it. It ends at PS_CPU_CACHE_BLOCKS and PS_CPU_CACHE_BYTES,
 * or PS_CPU_CACHE_BUSY_BYTES if many blocks were taken in the last round. Blocks that were not used
 * for PS_RETENTION_SCAN_MS, a round, return to their spans (cpu_return.h).
 *
 * Any thread, except where noted. Callers: heap/, harden/guard_refill.c, profile/, record/.
 * cpu_first.h locks single classes of a cache.
 */
#ifndef PS_HEAP_CPU_CACHE_H
#define PS_HEAP_CPU_CACHE_H

#include "pools/engine/heap/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_CPU_CACHES 1024      /* processors beyond have none */
#define PS_CPU_CACHE_BLOCKS 256 /* of a class */
#define PS_CPU_CACHE_BYTES ((size_t)64 << 10)
#define PS_CPU_CACHE_BUSY_BYTES ((size_t)256 << 10) /* of a class from which many are taken */
#define PS_CPU_CACHE_TAKES_A_BLOCK 64 /* as many takes of a round as let it have another one */

#define PS_CPU_NO_CLASS UINT32_MAX

/* The state of a class in a cache: how many blocks it has; whether a thread has locked it (HELD);
 * and how many were taken from it. Changed as cpu_first.h says. */
#define PS_CPU_STATE_HELD ((uint32_t)1 << 16)
#define PS_CPU_STATE_COUNT (PS_CPU_STATE_HELD - 1)
#define PS_CPU_STATE_TAKES_SHIFT 17

struct ps_cpu_cache {
    PS_ALIGNED(PS_CACHE_LINE) uint64_t x_state[PS_CLASS_LIMIT];
    uint16_t x_limit[PS_CLASS_LIMIT]; /* most blocks */
    uint16_t x_low[PS_CLASS_LIMIT];   /* about the least count since unused blocks were returned */
    uint32_t x_taken[PS_CLASS_LIMIT]; /* takes before that, modulo 2^32 */
    uint32_t node;                    /* of the processor */
    uint32_t changing;                /* held class whose blocks are being moved; NO_CLASS: none */
    void *blocks[PS_CLASS_LIMIT][PS_CPU_CACHE_BLOCKS]; /* the oldest first */
};

/* Made when they are needed. Read from outside of the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_cpu_cache *ps_cpu_x_caches[PS_CPU_CACHES];

/* No processor of this number or a higher one has a cache. */
extern PS_HIDDEN uint32_t ps_cpu_x_end;

/* Caches a block of another owner's span of one granule. False: it has to return to its span. */
bool ps_cpu_cache_put(struct ps_heap *heap, const struct ps_span *span, void *block);

/* Puts a block of a span of one granule where caches come first and ps_cpu_cache_put_soon has not:
 * tags the granule, and lets a full class have more. False: the block has to return to its span. */
bool ps_cpu_cache_put_first(const struct ps_span *span, void *block);

/* Puts a free block of the calling heap's current span, of one granule, into the cache, for malloc.
 * Does not read the block, which may never have been touched. False: not cached. */
bool ps_cpu_cache_fill(const struct ps_span *span, void *block);

/* Judges how many blocks of a class a cache may have, by the takes since the last round of returns.
 * Called for each round. */
void ps_cpu_cache_judge(struct ps_cpu_cache *cache, size_t class_index);

/* True where threads are registered for restartable sequences, without which caches that come first
 * cost more than heaps. Set by ps_cpu_cache_start; unit tests set it. */
extern PS_HIDDEN bool ps_cpu_may_be_first;

/* Called once, with the engine, after ps_rseq_start. */
void ps_cpu_cache_start(void);

/* Decides whether caches come first for the calling thread. */
void ps_cpu_cache_choose(void);

/* A refill of the class is about to take fresh memory. */
void ps_cpu_cache_ask(uint32_t class_index);

/* The newest block of a class; NULL if there is none. */
void *ps_cpu_cache_take(uint32_t class_index);

/* Blocks taken from all caches: a snapshot. Any thread. */
uint64_t ps_cpu_cache_takes(void);

/* Blocks of a class in all caches: a snapshot. Any thread. */
size_t ps_cpu_cache_blocks(uint32_t class_index);

#endif
