/* SPDX-License-Identifier: MIT */
/*
 * A thread's caches of blocks of classes above 1 KiB: the newest that it freed, for its next
 * requests. A span has at most 63 such blocks. Without a cache, frees in random order would make a
 * full span available for one block, which the next request takes again: a change of lists and
 * accounts each time.
 *
 * A cached block counts as used in its span, whichever heap owns that. Its first word is that of a
 * block that is to return to its span (ps_span_check_waiting). So a second free is found as for any
 * free block, and a write after the free when the block leaves the cache.
 *
 * A cache has room for 4 blocks at first. A full cache doubles its limit if as many blocks as the
 * limit were taken since the last change, up to PS_CLASS_CACHE_BLOCKS and PS_CLASS_CACHE_BYTES: a
 * program that only frees fills no cache. On a machine of several nodes the limit is always 0, so
 * that each free calls has_room, which refuses blocks of other nodes. Four times a second unused
 * blocks return to their spans. All blocks return at the end of the thread, when the heap is taken
 * (thread.h), and while memory is short. Nothing is added where the caches of processors come first
 * (cpu_cache.h), nor in modes that count or check requests.
 *
 * (Arrays of addresses in front of shared memory are the magazines of Bonwick and Adams, 2001. That
 * their limits adapt follows tcmalloc's thread caches.)
 *
 * Callers: slow_path.c, plain.c, maintenance.c, bin_return.c, start.c, census.c. The owner of the
 * heap, within a call. No locks of its own.
 */
#ifndef PS_HEAP_CLASS_CACHE_H
#define PS_HEAP_CLASS_CACHE_H

#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/slow_path.h"

#define PS_CLASS_CACHE_BYTES ((size_t)128 << 10) /* of a class */
#define PS_CLASS_CACHE_TAKES_PER_TICK 256        /* between two readings of the clock */

/* Called once, when the mode and the classes are known. */
void ps_class_cache_start(void);

/* The state of a cache is one word, so that a take loads and stores all of it at once. */
#define PS_CLASS_CACHE_ONE sizeof(struct ps_class_cache_entry) /* one block more */
#define PS_CLASS_CACHE_TAKES_SHIFT 16
#define PS_CLASS_CACHE_TAKEN (((uint64_t)1 << PS_CLASS_CACHE_TAKES_SHIFT) - PS_CLASS_CACHE_ONE)

/* Any thread: a snapshot. relaxed, both: the owner writes it. */
PS_INLINE size_t ps_class_cache_count(const struct ps_class_cache *cache) {
    return (uint16_t)ps_load_relaxed(&cache->x_state) / PS_CLASS_CACHE_ONE;
}
static inline uint64_t ps_class_cache_takes(const struct ps_class_cache *cache) {
    return ps_load_relaxed(&cache->x_state) >> PS_CLASS_CACHE_TAKES_SHIFT;
}

/* The entry after the last one of a state. */
PS_INLINE struct ps_class_cache_entry *ps_class_cache_end(struct ps_class_cache *cache,
                                                          uint64_t state) {
    return (struct ps_class_cache_entry *)((char *)cache->entries + (uint16_t)state);
}

PS_INLINE bool ps_class_cache_is_full(const struct ps_class_cache *cache, uint64_t state) {
    return (uint16_t)state >= cache->limit;
}

/* Adds a freed block, for which there is room. The child of a fork, which does not have the thread,
 * finds no entry that is not complete. */
PS_INLINE void ps_class_cache_add(struct ps_class_cache *cache, uint64_t state, void *block,
                                  uintptr_t link) {
    ps_link_store(block, link);
    *ps_class_cache_end(cache, state) = (struct ps_class_cache_entry){block, link};
    ps_fence_program_order();
    ps_store_relaxed(&cache->x_state, state + PS_CLASS_CACHE_ONE); /* relaxed: as above */
}

/* False if a full cache gets no room for more: it has the most, or too few blocks were taken since
 * it got the room that it has. */
PS_INLINE bool ps_class_cache_may_grow(const struct ps_class_cache *cache, uint64_t state) {
    uint16_t takes = (uint16_t)((state >> PS_CLASS_CACHE_TAKES_SHIFT) - cache->raised);
    bool is_at_most = cache->most != 0 && (uint16_t)state >= cache->most;
    return !is_at_most && takes >= cache->limit / PS_CLASS_CACHE_ONE;
}

/* True if a cache takes a block of a span; one that is full may get room for more. False: it has
 * the most that it may have, its class has none, or the span lies on another node.
 * Precondition: ps_class_cache_may_grow. */
bool ps_class_cache_has_room(struct ps_heap *heap, const struct ps_span *span);

/* True if there is a block of a class for a request, which the mode need not count. Reads the
 * cache, which no class below ps_class_cache_first_class should make a heap touch. */
PS_INLINE bool ps_class_cache_has_block(const struct ps_heap *heap, size_t class_index) {
    return (uint16_t)heap->class_caches[class_index].x_state != 0 && !ps_alloc_counts_requests();
}

/* Takes the newest block, which there is, and leaves. It may read the clock, because the thread may
 * make no other slow call. */
PS_INLINE void *ps_class_cache_take(struct ps_heap *heap, size_t class_index) {
    struct ps_class_cache *cache = &heap->class_caches[class_index];
    PS_OPAQUE(cache); /* gcc would compute the address twice to save a register */
    uint64_t state = cache->x_state;
    struct ps_class_cache_entry entry = ps_class_cache_end(cache, state)[-1];
    state += PS_CLASS_CACHE_TAKEN;
    ps_store_relaxed(&cache->x_state, state); /* relaxed: as above */
    ps_fence_program_order(); /* for the child of a fork: a live block is in no cache */
    if (PS_UNLIKELY(ps_link_word(entry.block) != entry.link)) {
        ps_misuse_link(entry.block, ps_size_classes[class_index].block_bytes);
    }
    ps_link_clear(entry.block);
    if (PS_UNLIKELY((state >> PS_CLASS_CACHE_TAKES_SHIFT) % PS_CLASS_CACHE_TAKES_PER_TICK == 0)) {
        return ps_heap_tick_and_leave(heap, entry.block);
    }
    ps_thread_leave();
    return entry.block;
}

/* As ps_class_cache_take, of any class; that of PS_CLASS_NONE is empty. NULL: there is no block;
 * then it does not leave. */
static inline void *ps_class_cache_take_any(struct ps_heap *heap, size_t class_index) {
    return class_index >= ps_class_cache_first_class && ps_class_cache_has_block(heap, class_index)
               ? ps_class_cache_take(heap, class_index)
               : NULL;
}

/* The blocks that return: of each class the oldest, except as many as were taken since the last
 * call; all of the classes from which none was taken; or all. */
enum ps_class_cache_part { PS_CLASS_CACHE_UNUSED, PS_CLASS_CACHE_IDLE, PS_CLASS_CACHE_ALL };

/* Takes these blocks out, and calls give for each, which returns it to its span. */
void ps_class_cache_return(struct ps_heap *heap, enum ps_class_cache_part part,
                           void (*give)(void *block));

/* In the child of a fork, on its only thread: the caches of threads that are not there return
 * later, since that writes to each block, and most children exec. first: of all heaps. */
void ps_class_cache_fork_child(struct ps_heap *first);

/* Returns the caches of one heap whose thread is not in this child of a fork. Any thread, within a
 * call. True if there may be more. */
bool ps_class_cache_return_dead(void (*give)(void *block));

#endif
