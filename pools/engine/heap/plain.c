/* SPDX-License-Identifier: MIT */
/*
 * See plain.h. No locks of its own.
 */
#include "pools/engine/heap/plain.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/bytes.h"

/* ---- allocation ---- */

void *ps_plain_alloc(struct ps_heap *heap, size_t bytes) {
    if (PS_LIKELY(bytes > PS_CLASS_BYTES_LIMIT)) {
        return ps_plain_alloc_large(heap, bytes);
    }
    return ps_heap_take(heap, ps_size_class_of(bytes), bytes);
}

void *ps_plain_zalloc(struct ps_heap *heap, size_t bytes) {
    if (PS_LIKELY(bytes > ps_size_class_max_bytes)) {
        if (heap != NULL) {
            ps_heap_tick(heap);
        }
        return ps_large_zalloc(bytes);
    }
    void *block = ps_plain_alloc(heap, bytes);
    return block != NULL ? ps_bytes_zero_block(block, bytes) : NULL;
}

void *ps_plain_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align) {
    uint32_t class_index = ps_size_class_of_aligned(ps_max(bytes, 1), align);
    if (class_index == PS_CLASS_NONE) {
        return ps_large_alloc(bytes, align, NULL);
    }
    /* The whole block: where a guarded sample ends at a page, it is aligned as the class is. */
    return ps_heap_take(heap, class_index, ps_size_classes[class_index].block_bytes);
}

/* ---- free, and parts that other modes use ---- */

static inline struct ps_heap *own_heap(void) {
    struct ps_heap *heap = ps_thread_own();
    return PS_LIKELY(heap != NULL) ? heap : ps_heap_acquire_to_free();
}

void ps_heap_free_foreign_owner(struct ps_span *span, void *block) {
    struct ps_heap *heap = own_heap();
    if (PS_UNLIKELY(heap == NULL)) {
        ps_remote_free_at_once(span, block);
    } else if (!ps_heap_owns(heap, span)) {
        ps_remote_free(heap, span, block);
    } else if (ps_heap_push(span, block)) {
        ps_heap_free_event(block, span);
    }
}

void ps_free_large(struct ps_slot *slot, void *block) {
    if (ps_block_is_medium(slot)) {
        ps_medium_free(slot, block);
        return;
    }
    if (!ps_block_is_large(slot, block)) {
        ps_mode.hook.stray_free(slot, block);
        return;
    }
    ps_large_free(slot);
    struct ps_heap *heap = ps_thread_own();
    if (ps_front_is_on) {
        ps_heap_tick_thread_after_free();
    } else if (heap != NULL) {
        ps_heap_tick_after_free(heap);
    }
}

void ps_plain_free(struct ps_span *span, void *block, uintptr_t owner_key) {
    (void)owner_key;
    struct ps_slot *slot = (struct ps_slot *)span;
    span = ps_span_holding(slot, block);
    if (PS_UNLIKELY(span == NULL)) {
        ps_free_large(slot, block);
        return;
    }
    ps_free_check(span, block);
    ps_heap_free_foreign_owner(span, block);
}
