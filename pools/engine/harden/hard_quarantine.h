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
};

struct ps_hard {
    uint64_t random;
    int32_t became_ready; /* uncounted blocks; below 0: counted, and returned since */
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
static inline void ps_hard_hold(struct ps_heap *heap, uint32_t class_index, void *block) {
    struct ps_hard *hard = heap->hard;
    struct ps_hard_class *class = &hard->classes[class_index];
    if (PS_UNLIKELY(class->held_count < class->held_limit)) {
        class->held[class->held_count++] = block;
        return;
    }
    size_t index = ps_hard_random_below(hard, class->held_count);
    void *other = class->held[index];
    class->held[index] = block;
    if (PS_UNLIKELY(ps_guard_period != 0)) {
        if (ps_guard_is_exact()) {
            ps_hard_return(heap, other);
            return;
        }
        if (++hard->became_ready >= PS_READY_COUNTED) {
            ps_hard_count_ready(heap, class_index);
        }
    }
    if (PS_UNLIKELY(class->ready_count == class->ready_limit)) {
        ps_hard_overflow(heap, class_index);
    }
    class->ready[class->ready_count++] = (uintptr_t)other;
}

#endif
