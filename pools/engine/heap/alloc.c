/* SPDX-License-Identifier: MIT */
/*
 * Slow paths of malloc, calloc and the aligned family, and the plain mode's entry points for them:
 * requests above the direct table, a thread's first call. Called from fast_path.h and the shim. No
 * locks of its own.
 */
#include "pools/engine/heap/alloc.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/detached.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/resize.h"

#include <string.h>

size_t ps_alloc_refill_max_bytes = PS_CLASS_BYTES_LIMIT;

static PS_NOINLINE void *alloc_by_mode(size_t bytes) {
    struct ps_heap *heap = ps_thread_own();
    void *block =
        PS_LIKELY(heap != NULL) ? ps_mode.entry.alloc(heap, bytes) : ps_detached_alloc(bytes);
    ps_thread_leave();
    return block;
}

PS_NOINLINE void *ps_heap_alloc_slow(size_t bytes) {
    struct ps_heap *heap = ps_thread_fast();
    if (PS_LIKELY(heap != NULL && bytes <= ps_alloc_refill_max_bytes)) {
        return PS_LIKELY(bytes <= ps_size_class_max_bytes)
                   ? ps_class_alloc(heap, ps_size_class_by_8[(bytes + 7) >> 3], bytes)
                   : ps_heap_refill(heap, &heap->bins[PS_CLASS_NONE], bytes);
    }
    void *block = PS_LIKELY(heap != NULL) ? ps_medium_take_newest(&heap->medium, bytes) : NULL;
    if (PS_UNLIKELY(block == NULL)) {
        return alloc_by_mode(bytes);
    }
    ps_thread_leave();
    return block;
}

static void *zalloc_slow(size_t bytes) {
    struct ps_heap *heap = ps_thread_own();
    void *block =
        PS_LIKELY(heap != NULL) ? ps_mode.entry.zalloc(heap, bytes) : ps_detached_zalloc(bytes);
    ps_thread_leave();
    return block;
}

void *ps_block_zalloc(size_t bytes) {
    ps_thread_enter();
    struct ps_heap *heap = ps_thread_fast();
    if (PS_UNLIKELY(heap == NULL || bytes > ps_size_class_max_bytes)) {
        return zalloc_slow(bytes);
    }
    uint32_t class_index = ps_size_class_of(bytes);
    struct ps_bin *bin = &heap->bins[class_index];
    struct ps_span *source = heap->current[class_index];
    if (bin->is_zero && ps_link_is_end(source->free) && bin->cur != bin->end) {
        void *block = ps_bin_move(bin, source);
        ps_thread_leave();
        return block;
    }
    void *block = ps_class_alloc(heap, class_index, bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

void *ps_block_alloc_aligned(size_t bytes, size_t align) {
    if (align <= 16 && (bytes > 8 || align <= 8)) {
        return ps_heap_alloc(bytes);
    }
    ps_thread_enter();
    struct ps_heap *heap = ps_thread_own();
    void *block = PS_LIKELY(heap != NULL) ? ps_mode.entry.alloc_aligned(heap, bytes, align)
                                          : ps_detached_alloc_aligned(bytes, align);
    ps_thread_leave();
    return block;
}

/* ---- entry points of the plain mode ---- */

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
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

void *ps_plain_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align) {
    uint32_t class_index = ps_size_class_of_aligned(ps_max(bytes, 1), align);
    if (class_index == PS_CLASS_NONE) {
        return ps_large_alloc(bytes, align, NULL);
    }
    /* The whole block: where a guarded sample ends at a page, it is aligned as the class is. */
    return ps_heap_take(heap, class_index, ps_size_classes[class_index].block_bytes);
}
