/* SPDX-License-Identifier: MIT */
/*
 * The slow sides of malloc and free: sizes above the direct table, threads without a heap, blocks
 * of other owners, events of a span. Called from fast_path.h. No locks of its own.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/blocks.h"
#include "pools/engine/heap/early.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/hard.h"
#include "pools/engine/heap/late.h"
#include "pools/engine/heap/record.h"
#include "pools/engine/heap/zero.h"

#include <errno.h>
#include <string.h>

/* The heap to allocate from, NULL when the call must go elsewhere. */
static struct ps_heap *own_heap(void) {
    struct ps_heap *heap = ps_thread.own;
    return PS_LIKELY(heap != NULL) ? heap : ps_heap_acquire();
}

static PS_COLD void *alloc_without_heap(size_t bytes) {
    if (ps_thread.is_exiting) {
        return ps_late_alloc(bytes);
    }
    errno = ENOMEM;
    return NULL;
}

static PS_NOINLINE void *alloc_slowly(size_t bytes) {
    if (PS_UNLIKELY(!ps_early_is_over())) {
        return ps_early_alloc(bytes, PS_EARLY_ALIGN);
    }
    struct ps_heap *heap = own_heap();
    if (PS_UNLIKELY(heap == NULL)) {
        return alloc_without_heap(bytes);
    }
    if (PS_UNLIKELY(ps_record_is_on())) { /* the thread's first */
        return ps_record_alloc(heap, bytes);
    }
    if (bytes > PS_CLASS_BYTES_LIMIT - ps_hard_extra_bytes) {
        ps_heap_tick(heap);
        return ps_large_alloc(bytes, 1, NULL);
    }
    return ps_hard_is_on() ? ps_hard_alloc(heap, ps_hard_class_of(bytes), bytes, bytes)
                           : ps_heap_take(heap, &heap->bins[ps_size_class_of(bytes)], bytes);
}

PS_NOINLINE void *ps_heap_alloc_beyond(size_t bytes) {
    struct ps_heap *heap = ps_thread.own;
    return PS_UNLIKELY(ps_record_is_on()) && heap != NULL ? ps_record_alloc(heap, bytes)
                                                          : alloc_slowly(bytes);
}

static void *zalloc_large(size_t bytes) {
    struct ps_heap *heap = own_heap(); /* not for the block: the engine must have started */
    if (PS_LIKELY(heap != NULL)) {
        ps_heap_tick(heap);
    } else if (!ps_thread.is_exiting) {
        return alloc_without_heap(bytes);
    }
    void *block = ps_large_zalloc(bytes);
    return PS_UNLIKELY(ps_record_is_on()) ? ps_record_large(block) : block;
}

void *ps_block_zalloc(size_t bytes) {
    struct ps_heap *heap = ps_thread.heap;
    if (PS_UNLIKELY(!ps_early_is_over())) {
        return ps_early_alloc(bytes, PS_EARLY_ALIGN);
    }
    if (PS_LIKELY(heap != NULL) && bytes <= PS_CLASS_BYTES_LIMIT) {
        struct ps_bin *bin = &heap->bins[ps_size_class_of(bytes)];
        if (bin->is_zero && ps_link_is_end(bin->source->free) && bin->cur != bin->end) {
            return ps_bin_move(bin);
        }
    }
    if (PS_UNLIKELY(heap == NULL) && ps_record_is_on() && ps_thread.own != NULL) {
        return ps_record_zalloc(ps_thread.own, bytes);
    }
    if (bytes > PS_CLASS_BYTES_LIMIT) {
        return zalloc_large(bytes);
    }
    void *block = ps_heap_alloc(bytes);
    return block != NULL && (!ps_hard_is_on() || ps_guard_period != 0) ? memset(block, 0, bytes)
                                                                       : block;
}

void *ps_block_alloc_aligned(size_t bytes, size_t align) {
    if (PS_UNLIKELY(!ps_early_is_over())) {
        return ps_early_alloc(bytes, align);
    }
    if (align <= 16 && (bytes > 8 || align <= 8)) {
        return ps_heap_alloc(bytes);
    }
    struct ps_heap *heap = own_heap();
    if (PS_UNLIKELY(heap == NULL) && !ps_thread.is_exiting) {
        return alloc_without_heap(bytes);
    }
    if (PS_UNLIKELY(ps_record_is_on()) && heap != NULL) {
        return ps_record_alloc_aligned(heap, bytes, align);
    }
    if (PS_UNLIKELY(bytes == 0 && ps_hard_level != 0 && align <= PS_ZERO_ALIGN)) {
        return ps_zero_alloc();
    }
    size_t wanted = ps_max(bytes, 1) + ps_hard_extra_bytes;
    uint32_t class_index = wanted < bytes ? PS_CLASS_NONE : ps_size_class_of_aligned(wanted, align);
    if (class_index == PS_CLASS_NONE) {
        void *block = ps_large_alloc(bytes, align, NULL);
        return PS_UNLIKELY(ps_record_is_on()) ? ps_record_large(block) : block;
    }
    if (PS_UNLIKELY(heap == NULL)) {
        return ps_late_alloc(ps_size_classes[class_index].block_bytes - ps_hard_extra_bytes);
    }
    if (ps_hard_is_on()) {
        return ps_hard_alloc(heap, class_index, bytes, ps_size_classes[class_index].block_bytes);
    }
    /* The whole block: where a guarded sample ends at a page, it is aligned as the class is. */
    return ps_heap_take(heap, &heap->bins[class_index], ps_size_classes[class_index].block_bytes);
}

PS_NOINLINE void ps_heap_free_event(struct ps_span *span, void *block) {
    struct ps_heap *heap = ps_thread.own;
    uint32_t class_index = span->class_index;
    int64_t popped = span->popped;
    ps_span_settle(span);
    ptrdiff_t step = ps_run_step_of(span, block);
    bool has_run = step != 0 && span->used != 0;
    if (has_run) {
        /* The run's first block is out again, so the span cannot go while the run is open. */
        span->free = ps_link_of(block, span->salt);
        ps_link_clear(block);
        span->free_count--;
        ps_owner_add(&span->used, 1);
        span->interval = ps_size_classes[span->class_index].run_frees;
    } else if (step == 0) {
        span->interval = (uint16_t)ps_min((size_t)span->interval * 2, PS_INTERVAL_LIMIT);
    }
    ps_heap_span_gained(heap, span);
    if (has_run) {
        ps_run_open(heap, span, block, step);
    }
    if (PS_UNLIKELY(ps_guard_period != 0)) {
        ps_heap_guard_event(heap, class_index, popped);
    }
    ps_heap_tick(heap); /* last: it may let go of any span that is not current, of this one too */
}

PS_NOINLINE void ps_heap_free_doubtful(struct ps_span *span, void *block) {
    if (!ps_span_has_block(span, block) || ps_heap_is_free(span, block)) {
        ps_misuse_free(span, block);
    }
    if (ps_heap_push(span, block)) {
        ps_heap_free_event(span, block);
    }
}

/* A block of another owner's span, or of a heap that this thread has only just got. */
static void free_in_span(struct ps_span *span, void *block) {
    struct ps_heap *heap = own_heap();
    if (ps_hard_is_on()) {
        block = ps_hard_free(heap, span, block);
        if (block == NULL) {
            return;
        }
        span = ps_span_of_inside(ps_page_map_slot(block), block);
    } else if (PS_UNLIKELY(!ps_span_has_block(span, block) || ps_heap_is_free(span, block))) {
        ps_misuse_free(span, block);
    } else if (ps_hard_level == PS_HARD_ZEROES) {
        ps_wipe(block, span->block_bytes);
    }
    if (PS_UNLIKELY(heap == NULL)) {
        ps_late_free(span, block);
    } else if (!ps_heap_owns(heap, span)) {
        ps_remote_free(heap, span, block);
    } else if (ps_heap_push(span, block)) {
        ps_heap_free_event(span, block);
    }
}

void ps_heap_free_recent(struct ps_heap *heap, uint32_t class_index, struct ps_slot *slot,
                         void *block) {
    struct ps_span *list = &heap->recent[class_index];
    const struct ps_span *span = ps_span_of_inside(slot, block);
    if (PS_UNLIKELY(!ps_span_has_block(span, block) || ps_heap_is_free(span, block))) {
        ps_misuse_free(span, block);
    }
    if (PS_UNLIKELY(ps_heap_push(list, block))) {
        ps_recent_event(heap, class_index);
    }
}

PS_NOINLINE void ps_heap_free_others(struct ps_slot *slot, void *block) {
    uint8_t kind =
        ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block was handed out */
    if (PS_LIKELY(kind == PS_RUN_SPAN)) {
        free_in_span(ps_span_of_slot(slot), block);
    } else if (kind == PS_RUN_INSIDE) {
        free_in_span(ps_span_of_inside(slot, block), block);
    } else if ((kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block) {
        ps_large_free(slot);
        if (ps_thread.own != NULL) {
            ps_heap_tick(ps_thread.own);
        }
    } else if (kind == PS_RUN_GUARD) {
        ps_guard_free(block);
    } else if (kind == PS_RUN_ZERO) {
        ps_zero_free(slot, block);
    } else if (ps_early_usable(block) == 0) {
        ps_misuse_slot(slot, block, PS_MISUSE_FREE);
    }
}

PS_NOINLINE void ps_heap_free_other(struct ps_span *span, void *block, uintptr_t owner_key) {
    struct ps_heap *heap = ps_thread.heap;
    if (PS_UNLIKELY(heap == NULL) && ps_record_is_on()) {
        ps_record_free(span, block, owner_key); /* not NULL: that is the hot run that never ends */
        return;
    }
    if (PS_UNLIKELY(ps_hard_level == PS_HARD_ZEROES) && heap != NULL) {
        ps_hard_free_own(heap, span, block, owner_key);
        return;
    }
    size_t class_index = owner_key - (uintptr_t)heap - PS_KEY_RECENT;
    if (PS_LIKELY(class_index < PS_CLASS_LIMIT) && heap != NULL) {
        ps_heap_free_recent(heap, (uint32_t)class_index, (struct ps_slot *)span, block);
    } else if (block != NULL) {
        ps_heap_free_others((struct ps_slot *)span, block);
    }
}
