/* SPDX-License-Identifier: MIT */
/*
 * The quarantine of small blocks (levels 2 and 3 of hard.h). A heap has two arrays per class:
 *
 *   held   freed blocks. A block that is freed replaces a random one here, which becomes ready.
 *   ready  blocks for malloc, which takes the last. When it is full, the older half returns to the
 *          spans; when it is empty, it is refilled from there, in random order.
 *
 * So a block that one thread frees and allocates again touches no span, and is quarantined as long
 * as one that passes through its span. Blocks of other owners' spans are treated alike.
 *
 * Callers: hard.c. Owner of the heap only. No locks.
 */
#ifndef PS_HARDEN_HARD_QUARANTINE_H
#define PS_HARDEN_HARD_QUARANTINE_H

#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/heap.h"

/* Flag in ready: the block is zero and was not granted since it was zeroed. */
#define PS_READY_FRESH ((uintptr_t)1)

#define PS_READY_COUNTED 32 /* see ps_hard_count_ready */

struct ps_hard_class {
    uint16_t held_count;
    uint16_t held_limit;
    uint16_t ready_count;
    uint16_t ready_limit;
    void **held; /* rows are contiguous, because a thread uses few classes */
    uintptr_t *ready;
    uint64_t block_bytes; /* as of the bin; a power of two is found in fewer instructions */
};

struct ps_hard {
    uint64_t random;
    int32_t became_ready; /* uncounted blocks; below 0: counted, and returned since. Without guarded
                           * samples far below 0, where each block is one above */
    struct ps_hard_class classes[PS_CLASS_LIMIT];
};

/* Takes a block from a bin, zero except for what a write after free left; NULL when it is empty.
 * The second refills the bin then, as ps_heap_take does. */
void *ps_hard_take(struct ps_heap *heap, uint32_t class_index);
void *ps_hard_take_or_refill(struct ps_heap *heap, uint32_t class_index, size_t bytes);

/* Refills ready of a class that has none. If none is ready afterwards, returns a guarded sample, or
 * NULL with errno ENOMEM. bytes: the request. */
void *ps_hard_refill(struct ps_heap *heap, uint32_t class_index, size_t bytes);

/* Returns the older half of the ready blocks to their spans. */
void ps_hard_overflow(struct ps_heap *heap, uint32_t class_index);

/* Returns a block to its span. */
void ps_hard_return(struct ps_heap *heap, void *block);

/* Counts blocks that became ready without a refill as allocations, for guarded samples. If a sample
 * is due now, returns all ready blocks of the class. */
void ps_hard_count_ready(struct ps_heap *heap, uint32_t class_index);

/* True for a guarded sample from the bin, which bypasses the quarantine. */
static inline bool ps_hard_is_sample(const void *block) {
    /* relaxed: no other thread has the block. */
    return ps_guard_period != 0 &&
           ps_load_relaxed(&ps_page_map_slot(block)->run.kind) == PS_RUN_GUARD;
}

/* Knuth's generator: one multiplication, whose upper half is random enough here. */
static inline size_t ps_hard_random_below(struct ps_hard *hard, size_t limit) {
    hard->random = hard->random * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    return (size_t)(((hard->random >> 32) * limit) >> 32);
}

/* Quarantines a freed block. */
void ps_hard_hold(struct ps_heap *heap, uint32_t class_index, void *block);

/* True if a block of the class replaces another one, which becomes ready, and no more is to do. */
PS_INLINE bool ps_hard_can_swap(const struct ps_hard *hard, const struct ps_hard_class *class) {
    return class->held_count == class->held_limit && class->ready_count < class->ready_limit &&
           hard->became_ready < PS_READY_COUNTED;
}

/* As ps_hard_hold, if ps_hard_can_swap. Returns the block that became ready. */
PS_INLINE char *ps_hard_swap(struct ps_hard *hard, struct ps_hard_class *class, void *block) {
    size_t index = ps_hard_random_below(hard, class->held_limit);
    void *other = class->held[index];
    hard->became_ready++;
    class->ready[class->ready_count++] = (uintptr_t)other;
    class->held[index] = block;
    return other;
}

#endif
