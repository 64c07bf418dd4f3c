/* SPDX-License-Identifier: MIT */
/*
 * Caches per processor: blocks of other heaps' spans, kept where they were freed for the next
 * malloc of their class on that processor, whichever thread calls it.
 *
 * In a server one thread allocates what another frees. Blocks that return to the span they came
 * from serve its owner alone, which may not run for a while; the thread that runs takes fresh
 * memory meanwhile, so that memory grows with the threads. Through the cache it follows the
 * processors instead, and a block is reused while it is still in the processor's cache lines.
 *
 * A cached block counts as used in its span: neither put nor take changes an account, and any
 * thread may free it again. A put does not touch the block, which is rarely in the processor's
 * cache lines: it prefetches it, and links the one that was put four before it to the end of its
 * span's list. A second free of a linked block, and a write after its free, are found as in a batch
 * (link.h); one of the newest four is found by its address.
 *
 * A thread that mostly frees blocks of others passes all small blocks through the caches first, its
 * own too: it then has no fast path. Its heap serves what they do not have.
 *
 * A class is cached where it would take fresh memory otherwise: each fresh span allows its cache
 * more blocks, up to 64 and 16 KiB. Blocks that were not used for PS_RETENTION_SCAN_MS return to
 * their spans, and a class of which none was used is cached no more. Blocks of an ended thread
 * return at once, since their spans are then adopted by the thread that frees them. A process of
 * two threads per processor or fewer caches nothing: ps_background_is_crowded.
 *
 * Lock: that of the cache, only tried (cpu_lock.h).
 *
 * Modes whose frees take the fast path only. Any thread that has a heap, except where noted.
 */
#ifndef PS_HEAP_CPU_CACHE_H
#define PS_HEAP_CPU_CACHE_H

#include "pools/engine/heap/cpu_lock.h"
#include "pools/engine/heap/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_CPU_CACHE_BLOCKS 64 /* of a class */
#define PS_CPU_CACHE_BYTES ((size_t)16 << 10)

/* Fields marked x_ are read without the lock. */
struct ps_cpu_cache {
    PS_ALIGNED(PS_CACHE_LINE) struct ps_cpu_lock lock; /* its parts are the classes */
    uint8_t x_count[PS_CLASS_LIMIT];                   /* blocks of each class */
    uint8_t x_limit[PS_CLASS_LIMIT]; /* most of them; written without the lock, too */
    uint8_t low[PS_CLASS_LIMIT];     /* least count since unused blocks were returned */
    uint8_t linked[PS_CLASS_LIMIT];  /* oldest blocks that are linked */
    void *blocks[PS_CLASS_LIMIT][PS_CPU_CACHE_BLOCKS]; /* the oldest first */
};

/* Made when they are needed. Read from outside of the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_cpu_cache *ps_cpu_x_caches[PS_CPU_CACHES];

/* Caches a block of another owner's span of one granule. False: it has to return to its span. Cost:
 * about 30 instructions, one of them a swap. */
bool ps_cpu_cache_put(struct ps_heap *heap, struct ps_span *span, void *block);

/* The same where caches come first, of the thread's own blocks, too. owner_key: the span's. */
bool ps_cpu_cache_put_first(struct ps_heap *heap, struct ps_span *span, void *block,
                            uintptr_t owner_key);

/* Decides from what the thread has freed since the last time whether caches come first for it. */
void ps_cpu_cache_choose(struct ps_heap *heap);

/* A refill of the class is about to take fresh memory. */
void ps_cpu_cache_ask(struct ps_heap *heap, uint32_t class_index);

/* The newest block of a class; NULL if there is none. */
void *ps_cpu_cache_take(struct ps_heap *heap, uint32_t class_index);

/* Returns a block to its span: ps_remote_return, which is of a layer above. */
typedef void ps_cpu_cache_return(void *block);

/* Called periodically, by any thread: every PS_RETENTION_SCAN_MS the caches return unused blocks,
 * those of medium blocks too (cpu_medium.h), those of one processor a call. Returns after how many
 * milliseconds there is more to do; 0: all were empty. */
uint32_t ps_cpu_cache_tick(uint64_t now_ms, ps_cpu_cache_return *give);

/* Returns all blocks to their spans and regions. Any thread. */
void ps_cpu_cache_drain(ps_cpu_cache_return *give);

/* Blocks of a class in all caches: a snapshot. Any thread. */
size_t ps_cpu_cache_blocks(uint32_t class_index);

/* In the child of a fork, on its only thread: frees the locks that other threads held. The blocks
 * of the class that such a thread was changing stay used. */
void ps_cpu_cache_fork_child(void);

#endif
