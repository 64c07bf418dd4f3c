/* SPDX-License-Identifier: MIT */
/*
 * Where blocks are checked one by one (level 2 and 3 of hard.h), a thread's blocks that have no
 * owner: freed ones, which wait, and those that malloc takes next. For each class of a heap an
 * array of both:
 *
 *   held    freed. A block that is freed takes the place of a random one here, which becomes ready.
 *   ready   malloc takes the last one. When there are too many, the older half goes home to its
 *           spans; when there is none, as many come from there, in random order.
 *
 * So a block that is freed and allocated again by one thread touches no span, and waits as long as
 * one that comes through its span. Blocks of other owners' spans wait alike.
 * Callers: hard.c. Owner of the heap only. No locks.
 */
#ifndef PS_HARDEN_HARD_WAIT_H
#define PS_HARDEN_HARD_WAIT_H

#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/heap.h"

/* In ready, beside a block: it is zero, for it was never handed out since it was made so. */
#define PS_READY_FRESH ((uintptr_t)1)

#define PS_READY_COUNTED 32 /* see ps_hard_count_ready */

struct ps_hard_class {
    uint16_t held_count;
    uint16_t held_limit;
    uint16_t ready_count;
    uint16_t ready_limit;
    void **held; /* rows lie close together: a thread uses few classes */
    uintptr_t *ready;
};

struct ps_hard {
    uint64_t random;
    int32_t became_ready; /* blocks, not counted yet; below 0: counted, and then sent home */
    struct ps_hard_class classes[PS_CLASS_LIMIT];
};

/* Makes some ready of a class that has none. Where none is ready afterwards, the result is a
 * guarded sample, or NULL with errno ENOMEM. bytes: the request. */
void *ps_hard_refill(struct ps_heap *heap, uint32_t class_index, size_t bytes);

/* Sends the older half of those that are ready home. */
void ps_hard_overflow(struct ps_heap *heap, uint32_t class_index);

/* Sends a block home. */
void ps_hard_go_home(struct ps_heap *heap, void *block);

/* So many blocks have become ready without a refill, which would count them as allocations for the
 * sake of guarded samples. If a sample is due by now, none of the class stays ready. */
void ps_hard_count_ready(struct ps_heap *heap, uint32_t class_index);

/* Whether a block that the bin gave is a guarded sample, which passes by all this. */
static inline bool ps_hard_is_sample(const void *block) {
    /* relaxed: no other thread has the block. */
    return ps_guard_period != 0 &&
           ps_load_relaxed(&ps_page_map_slot(block)->run.kind) == PS_RUN_GUARD;
}

/* Knuth's generator: one multiplication, of which the upper half is good enough here. */
static inline size_t ps_hard_random_below(struct ps_hard *hard, size_t limit) {
    hard->random = hard->random * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    return (size_t)(((hard->random >> 32) * limit) >> 32);
}

/* Takes a freed block in. */
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
            ps_hard_go_home(heap, other);
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
