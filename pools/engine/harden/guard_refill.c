/* SPDX-License-Identifier: MIT */
/*
 * The refill hooks of modes with guarded samples. They count the blocks that a bin has granted and
 * receives, see guard.h. Owner of the heap only. No locks.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/bin_return.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/os/bytes.h"

static PS_COLD void *refill_sampled(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    uint32_t class_index = (uint32_t)(bin - heap->bins);
    if (ps_guard_is_due(&heap->guard) && heap == ps_thread_own()) {
        void *guarded = ps_guard_alloc(&heap->guard, bytes);
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
        void *guarded = ps_guard_alloc(&heap->guard, bytes);
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

void *ps_guard_zalloc(struct ps_heap *heap, size_t bytes) {
    if (bytes > PS_GUARD_BYTES_LIMIT) {
        return ps_plain_zalloc(heap, bytes);
    }
    void *block = ps_plain_alloc(heap, bytes);
    return block != NULL ? ps_bytes_zero_block(block, bytes) : NULL;
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
