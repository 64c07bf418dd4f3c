/* SPDX-License-Identifier: MIT */
/*
 * The hooks of guarded samples in modes with heaps. They count the blocks that a bin has granted
 * and receives. Owner of the heap only. No locks.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/bin_return.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#define DEBT_SAMPLES 16 /* bound on the samples that are due at once */

static uint64_t draw(struct ps_guard_sampler *sampler) {
    sampler->random ^= sampler->random << 13;
    sampler->random ^= sampler->random >> 7;
    sampler->random ^= sampler->random << 17;
    return sampler->random;
}

/* Draws 0 to 2N - 2 unsampled allocations; with the sampled one, N on average. */
static int64_t draw_gap(struct ps_guard_sampler *sampler) {
    return (int64_t)(draw(sampler) % (2 * (uint64_t)ps_guard_period - 1));
}

static void begin_if_new(struct ps_guard_sampler *sampler) {
    if (PS_UNLIKELY(sampler->random == 0)) {
        uint64_t seed = (uintptr_t)sampler ^ ps_os_now_ms() << 20 ^ ps_lock_self();
        sampler->random = seed * PS_GOLDEN_64 | 1;
        (void)draw(sampler);
        sampler->left = draw_gap(sampler);
    }
}

void ps_guard_count(struct ps_guard_sampler *sampler, int64_t allocations) {
    begin_if_new(sampler);
    int64_t least = -DEBT_SAMPLES * (int64_t)ps_guard_period;
    sampler->left -= allocations;
    sampler->left = sampler->left < least ? least : sampler->left;
}

static void *alloc_if_due(struct ps_guard_sampler *sampler, size_t bytes) {
    begin_if_new(sampler);
    if (sampler->left > 0) {
        return NULL;
    }
    void *block = ps_guard_make(bytes);
    int64_t owed = block != NULL ? sampler->left : 0; /* a missed sample is not made up for */
    sampler->left = owed + draw_gap(sampler);
    return block;
}

static PS_COLD void *refill_sampled(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    uint32_t class_index = (uint32_t)(bin - heap->bins);
    if (ps_guard_is_due(&heap->guard) && heap == ps_thread_own()) {
        void *guarded = alloc_if_due(&heap->guard, bytes);
        if (guarded != NULL) {
            return guarded;
        }
    }
    ps_bin_note_request(bin, bytes);
    int64_t popped = heap->current[class_index]->popped;
    ps_heap_tick(heap);
    if (!ps_heap_refill_class(heap, bin, class_index)) {
        return ps_heap_alloc_exhausted(heap, class_index, bytes);
    }
    int64_t granted = popped + (int64_t)ps_bin_window_blocks(bin);
    void *block = ps_mode.hook.take(heap, class_index);
    if (ps_guard_is_exact()) {
        granted = 1;
        ps_heap_empty_bin(heap, class_index);
    }
    ps_guard_count(&heap->guard, granted);
    return block;
}

/* No class: each request comes here. */
static PS_COLD void *alloc_sampled(struct ps_heap *heap, size_t bytes) {
    if (ps_guard_is_due(&heap->guard) && heap == ps_thread_own()) {
        void *guarded = alloc_if_due(&heap->guard, bytes);
        if (guarded != NULL) {
            return guarded;
        }
    }
    ps_guard_count(&heap->guard, 1);
    return ps_plain_alloc_large(heap, bytes);
}

void *ps_guard_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    if (ps_guard_period == 0) {
        return ps_plain_refill(heap, bin, bytes);
    }
    if (bin != &heap->bins[PS_CLASS_NONE]) {
        return refill_sampled(heap, bin, bytes);
    }
    return bytes <= PS_GUARD_BYTES_LIMIT ? alloc_sampled(heap, bytes)
                                         : ps_plain_alloc_large(heap, bytes);
}

void ps_guard_count_pops(struct ps_heap *heap, uint32_t class_index, int64_t popped) {
    if (ps_guard_period == 0) {
        return;
    }
    ps_guard_count(&heap->guard, popped);
    if (ps_guard_is_due(&heap->guard)) {
        ps_guard_count(&heap->guard,
                       -(int64_t)ps_bin_window_blocks(&heap->bins[class_index])); /* returned */
        ps_heap_empty_bin(heap, class_index);
    }
}
