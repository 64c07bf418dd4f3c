/* SPDX-License-Identifier: MIT */
/*
 * Inline put and take of the caches of processors (cpu_cache.h): the fast path of a thread for
 * which the caches come first.
 *
 * The protocol. A class of a cache is a stack of addresses with a state word. If threads are
 * registered for restartable sequences (rseq.h), threads of that processor push and pop by them,
 * without a lock: a preempted thread blocks no other, and a signal handler finds every state
 * consistent. Elsewhere each push and pop locks the class: it sets HELD in the state, by an atomic
 * instruction, and stores the new state when it is done. A thread that finds a class held proceeds
 * without it.
 *
 * A thread that returns blocks (cpu_return.c), on any processor, sets HELD in the same way. A
 * sequence in its last instruction at that moment may still overwrite HELD, within the duration of
 * a store, a thousandth of PS_ANSWER_US; later sequences find another state than the one they read,
 * and fail. So the thread owns the class if HELD is still set after PS_ANSWER_US. As in thread.h,
 * the delay replaces a barrier on the other processor. A sequence whose virtual processor was
 * paused for longer fails, but may store HELD again after the release; the next return finds HELD
 * without an owner, and abandons the blocks of the class.
 *
 * The child of a fork clears HELD of threads that do not exist there, which undoes a push or pop.
 * It abandons a class whose blocks were being moved.
 *
 * Callers: cpu_cache.c, cpu_return.c, slow_path.c.
 */
#ifndef PS_HEAP_CPU_FIRST_H
#define PS_HEAP_CPU_FIRST_H

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/rseq.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/size_class.h"
#include "pools/engine/small/span.h"

/* Steps of the state; a pop is one take more and one block less. */
#define PS_CPU_STATE_PUSHED 1
#define PS_CPU_STATE_POPPED ((1 << PS_CPU_STATE_TAKES_SHIFT) - 1)

static inline uint64_t ps_cpu_cache_state(const struct ps_cpu_cache *cache, size_t class_index) {
    return ps_load_relaxed(&cache->x_state[class_index]); /* relaxed: a hint, or to be exchanged */
}

static inline size_t ps_cpu_cache_count(const struct ps_cpu_cache *cache, size_t class_index) {
    return ps_cpu_cache_state(cache, class_index) & PS_CPU_STATE_COUNT;
}

static inline size_t ps_cpu_cache_limit(const struct ps_cpu_cache *cache, size_t class_index) {
    return ps_load_relaxed(&cache->x_limit[class_index]); /* relaxed: either value is one of it */
}

static inline void ps_cpu_cache_set_limit(struct ps_cpu_cache *cache, size_t class_index,
                                          size_t limit) {
    /* relaxed: as in ps_cpu_cache_limit. */
    ps_store_relaxed(&cache->x_limit[class_index], (uint16_t)limit);
}

static inline size_t ps_cpu_cache_low(const struct ps_cpu_cache *cache, size_t class_index) {
    return ps_load_relaxed(&cache->x_low[class_index]); /* relaxed: a hint */
}

static inline void ps_cpu_cache_set_low(struct ps_cpu_cache *cache, size_t class_index,
                                        size_t count) {
    ps_store_relaxed(&cache->x_low[class_index], (uint16_t)count); /* relaxed: a hint */
}

static inline size_t ps_cpu_cache_end(void) {
    return ps_load_relaxed(&ps_cpu_x_end); /* relaxed: a cache that is just being made is empty */
}

/* NULL: that processor has none. */
PS_INLINE struct ps_cpu_cache *ps_cpu_cache_at(size_t index) {
    /* acquire: pairs with make of cpu_cache.c. */
    return PS_LIKELY(index < PS_CPU_CACHES) ? ps_load_acquire(&ps_cpu_x_caches[index]) : NULL;
}

/* ---- held classes ---- */

/* Sets HELD if the state of the class is as given. */
static inline bool ps_cpu_cache_hold(struct ps_cpu_cache *cache, size_t class_index,
                                     uint64_t state) {
    /* acquire: pairs with ps_cpu_cache_release; makes the blocks visible. */
    return (state & PS_CPU_STATE_HELD) == 0 &&
           ps_cas_strong_acquire(&cache->x_state[class_index], &state, state | PS_CPU_STATE_HELD);
}

/* state: the new one, without HELD. */
static inline void ps_cpu_cache_release(struct ps_cpu_cache *cache, size_t class_index,
                                        uint64_t state) {
    /* release: pairs with ps_cpu_cache_hold. */
    ps_store_release(&cache->x_state[class_index], state);
}

/* Push and pop without restartable sequences. */
bool ps_cpu_cache_push_held(struct ps_cpu_cache *cache, size_t class_index, void *block);
void *ps_cpu_cache_pop_held(struct ps_cpu_cache *cache, size_t class_index);

/* ---- put ---- */

/* Reports the misuse of a block. */
PS_NORETURN void ps_cpu_cache_freed_twice(const void *block);
PS_NORETURN void ps_cpu_cache_overwritten(const void *block);

/* A block that is freed is in no cache. */
PS_INLINE void ps_cpu_cache_check_free(const void *block) {
    if (PS_UNLIKELY(ps_link_is_marked(block))) {
        ps_cpu_cache_freed_twice(block);
    }
}

/* True if a block of the class may start at this address of its granule. */
PS_INLINE bool ps_cpu_cache_starts(size_t class_index, const void *block) {
    const struct ps_size_class *class = &ps_size_classes[class_index];
    uint32_t scaled = (uint16_t)(uintptr_t)block * class->factor;
    return scaled - class->scaled_first < class->scaled_blocks;
}

/* Puts a block, to which the program has no pointer, into a cache that may have it. index: of the
 * processor. has_rseq: ps_rseq_is_on, a constant. False: the block is not there. */
PS_INLINE bool ps_cpu_cache_push(struct ps_cpu_cache *cache, uint32_t index, size_t class_index,
                                 void *block, bool has_rseq) {
    ps_link_store(block, ps_link_mark(block)); /* first: another thread may take it at once */
    bool is_in =
        has_rseq ? ps_rseq_push(ps_rseq_offset, index, &cache->x_state[class_index],
                                cache->blocks[class_index], PS_CPU_STATE_COUNT | PS_CPU_STATE_HELD,
                                (uint32_t)ps_cpu_cache_limit(cache, class_index), block)
                 : ps_cpu_cache_push_held(cache, class_index, block);
    if (PS_UNLIKELY(!is_in)) {
        ps_link_clear(block);
    }
    return is_in;
}

/* Puts a freed block into a cache. tag: of the block's granule, may be 0. The others and the
 * result: as above. */
PS_INLINE bool ps_cpu_cache_put_into(struct ps_cpu_cache *cache, uint32_t index, uint32_t tag,
                                     void *block, bool has_rseq) {
    size_t class_index = ps_span_tag_class(tag);
    if (PS_UNLIKELY(tag == 0 || ps_span_tag_node(tag) != cache->node || !ps_retention_is_usual() ||
                    !ps_cpu_cache_starts(class_index, block))) {
        return false;
    }
    ps_cpu_cache_check_free(block);
    return ps_cpu_cache_push(cache, index, class_index, block, has_rseq);
}

/* Puts a block of any address, by restartable sequences, where its granule is tagged and the cache
 * of this processor has room. */
PS_INLINE bool ps_cpu_cache_put_soon(void *block) {
    uint32_t index = ps_rseq_cpu(ps_rseq_offset);
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    return PS_LIKELY(cache != NULL) &&
           ps_cpu_cache_put_into(cache, index, ps_page_map_tag(block), block, true);
}

/* ---- take ---- */

/* A block that leaves the cache. */
PS_INLINE void ps_cpu_cache_check(const void *block) {
    if (PS_UNLIKELY(!ps_link_is_marked(block))) {
        ps_cpu_cache_overwritten(block);
    }
}

/* The newest block of a class in the cache of this processor; NULL if there is none. */
PS_INLINE void *ps_cpu_cache_take_here(size_t class_index, bool has_rseq) {
    uint32_t index = has_rseq ? ps_rseq_cpu(ps_rseq_offset) : ps_os_cpu();
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    if (PS_UNLIKELY(cache == NULL)) {
        return NULL;
    }
    void *block;
    if (has_rseq) {
        uint32_t left;
        block = ps_rseq_pop(ps_rseq_offset, index, &cache->x_state[class_index],
                            cache->blocks[class_index], PS_CPU_STATE_COUNT | PS_CPU_STATE_HELD,
                            PS_CPU_CACHE_BLOCKS, PS_CPU_STATE_POPPED, &left);
        if (PS_UNLIKELY(block == NULL)) {
            return NULL;
        }
        if (left < ps_cpu_cache_low(cache, class_index)) {
            ps_cpu_cache_set_low(cache, class_index, left);
        }
        __builtin_prefetch(cache->blocks[class_index][left - (left != 0)], 1); /* the next */
    } else {
        block = ps_cpu_cache_pop_held(cache, class_index);
        if (block == NULL) {
            return NULL;
        }
    }
    ps_cpu_cache_check(block);
    ps_link_clear(block);
    return block;
}

#endif
