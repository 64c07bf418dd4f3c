/* SPDX-License-Identifier: MIT */
/*
 * See slow_path.h: requests above the direct table, a thread's first call, calls where the caches
 * of processors come first; frees of blocks of other owners, of spans of several granules and of no
 * class, events of a span; entry of realloc (resize.c). Called from fast_path.h, by the modes and
 * the shim. No locks of its own.
 */
#include "pools/engine/heap/slow_path.h"

#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/resize.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/detached.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/bytes.h"

#include <errno.h>

size_t ps_alloc_x_refill_max = PS_CLASS_BYTES_LIMIT;

void ps_alloc_set_refill_max(size_t bytes) {
    ps_store_relaxed(&ps_alloc_x_refill_max, bytes); /* relaxed: either way serves a request */
}

/* ---- allocation ---- */

static PS_NOINLINE void *alloc_by_mode(size_t bytes) {
    struct ps_heap *heap = ps_thread_own();
    void *block =
        PS_LIKELY(heap != NULL) ? ps_mode.entry.alloc(heap, bytes) : ps_detached_alloc(bytes);
    ps_thread_leave();
    return block;
}

static PS_NOINLINE void *alloc_unclassed(size_t bytes, struct ps_heap *heap) {
    if (PS_UNLIKELY(bytes <= ps_alloc_refill_max())) {
        return ps_heap_refill(heap, &heap->bins[PS_CLASS_NONE], bytes);
    }
    return alloc_by_mode(bytes);
}

static PS_NOINLINE void *alloc_of_class(size_t bytes, struct ps_heap *heap, size_t class_index) {
    return ps_class_alloc(heap, class_index, bytes);
}

static inline void *alloc_plain(struct ps_heap *heap, size_t bytes) {
    if (PS_UNLIKELY(bytes > ps_size_class_max_bytes)) {
        return alloc_unclassed(bytes, heap);
    }
    return alloc_of_class(bytes, heap, ps_size_class_by_8[(bytes + 7) >> 3]);
}

/* No fast path: the mode has none, or the thread has no heap. */
static PS_NOINLINE void *alloc_checked(size_t bytes) {
    struct ps_heap *heap = ps_thread_own();
    if (PS_UNLIKELY(heap == NULL)) {
        return alloc_by_mode(bytes);
    }
    return ps_mode.hook.has_fast_alloc ? alloc_by_mode(bytes) : ps_mode.entry.alloc(heap, bytes);
}

PS_NOINLINE void *ps_heap_alloc_slow(size_t bytes) {
    struct ps_heap *heap = ps_thread_fast();
    if (PS_LIKELY(heap != NULL)) {
        return alloc_plain(heap, bytes);
    }
    return alloc_checked(bytes);
}

static void *zalloc_slow(size_t bytes) {
    struct ps_heap *heap = ps_thread_own();
    void *block =
        PS_LIKELY(heap != NULL) ? ps_mode.entry.zalloc(heap, bytes) : ps_detached_zalloc(bytes);
    ps_thread_leave();
    return block;
}

void *ps_block_zalloc(size_t bytes) {
    if (PS_LIKELY(ps_front_may_serve())) {
        return ps_mode.front.zalloc != NULL ? ps_mode.front.zalloc(bytes)
                                            : ps_front_zalloc_plain(bytes);
    }
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
    return block != NULL ? ps_bytes_zero_block(block, bytes) : NULL;
}

void *ps_block_alloc_aligned(size_t bytes, size_t align) {
    if (align <= 16 && (bytes > 8 || align <= 8)) {
        return ps_heap_alloc(bytes);
    }
    if (PS_LIKELY(ps_front_may_serve())) {
        return ps_mode.front.alloc_aligned != NULL ? ps_mode.front.alloc_aligned(bytes, align)
                                                   : ps_front_alloc_aligned_plain(bytes, align);
    }
    ps_thread_enter();
    struct ps_heap *heap = ps_thread_own();
    void *block = PS_LIKELY(heap != NULL) ? ps_mode.entry.alloc_aligned(heap, bytes, align)
                                          : ps_detached_alloc_aligned(bytes, align);
    ps_thread_leave();
    return block;
}

/* ---- free ---- */

static PS_NOINLINE void free_other(struct ps_heap *heap, struct ps_span *span, void *block,
                                   uintptr_t owner_key) {
    if (PS_UNLIKELY(heap == NULL && ps_thread_own() == NULL)) {
        ps_detached_free(span, block, owner_key);
    } else {
        ps_mode.entry.free_block(span, block, owner_key);
    }
    ps_thread_leave();
}

/* The part of ps_span_expects that does not touch the block. */
static inline void check_start(const struct ps_span *span, const void *block) {
    /* relaxed: as in ps_span_is_unhanded. */
    if (PS_UNLIKELY(ps_span_scaled(span, block) >= ps_load_relaxed(&span->handed))) {
        ps_free_check(span, block);
    }
}

static inline void return_remote(struct ps_heap *heap, struct ps_span *span, void *block) {
    /* relaxed: as in ps_span_is_listed. */
    void *link = ps_link_of(block, ps_load_relaxed(&span->salt));
    if (PS_UNLIKELY(ps_link_is_near(block, link))) {
        ps_free_check(span, block);
    }
    ps_remote_free(heap, span, block);
    ps_thread_leave();
}

/* A block of another heap's or of the orphans, in a span of one granule. */
static PS_NOINLINE void free_remote(struct ps_heap *heap, struct ps_span *span, void *block) {
    check_start(span, block);
    return_remote(heap, span, block);
}

/* True for a block in a span of one granule. */
static inline bool is_short(const struct ps_span *span, uintptr_t owner_key) {
    uintptr_t way = owner_key & PS_KEY_MASK;
    return way == PS_KEY_AT_ONCE || (way == PS_KEY_SLOW && span->factor != 0);
}

PS_NOINLINE void ps_heap_free_slow(void *block, struct ps_span *span, uintptr_t owner_key) {
    struct ps_heap *heap = ps_thread_fast();
    if (owner_key == PS_KEY_MEDIUM) {
        free_other(heap, span, block, owner_key);
        return;
    }
    if (ps_load_relaxed(&ps_thread.key) == PS_KEY_CHECKED) { /* relaxed: this thread's own */
        ps_mode.entry.free_block(span, block, owner_key);
        return;
    }
    if (heap == NULL) {
        free_other(NULL, span, block, owner_key);
    } else if (is_short(span, owner_key)) {
        free_remote(heap, span, block);
    } else {
        free_other(heap, span, block, owner_key);
    }
}

PS_INLINE void settle_event(void *block, struct ps_span *span) {
    /* Not this thread's word, which may be NULL for a moment: see ps_thread_own. relaxed: it is
     * this thread's heap. */
    struct ps_heap *heap = ps_heap_of_key(ps_load_relaxed(&span->x_owner));
    uint32_t class_index = span->class_index;
    int64_t popped = span->popped;
    if (span->place == PS_PLACE_FULL) {
        popped = ps_heap_swap_in(heap, span);
    }
    ps_bin_settle(&heap->bins[class_index], span);
    ptrdiff_t step = ps_streak_step_of(span, block);
    bool has_streak = step != 0 && span->used != 0;
    if (has_streak) {
        /* The streak's first block counts as used again, so the span cannot drain while the streak
         * is open. */
        span->free = ps_link_of(block, span->salt);
        ps_link_clear(block);
        span->free_count--;
        ps_owner_add(&span->used, 1);
        span->probe_interval = ps_size_classes[span->class_index].streak_probe_interval;
    } else if (step == 0) {
        span->probe_interval =
            (uint16_t)ps_min((size_t)span->probe_interval * 2, PS_STREAK_PROBE_LIMIT);
    }
    ps_heap_span_gained(heap, span);
    if (has_streak) {
        ps_streak_open(heap, span, block, step);
    }
    if (PS_UNLIKELY(ps_mode.hook.count_pops != NULL)) {
        ps_mode.hook.count_pops(heap, class_index, popped);
    }
    ps_heap_tick(heap); /* last: it may release or orphan any span, including this one */
}

PS_NOINLINE void ps_heap_free_event(void *block, struct ps_span *span) {
    settle_event(block, span);
    ps_thread_leave();
}

PS_NOINLINE void ps_heap_free_event_within(void *block, struct ps_span *span) {
    settle_event(block, span);
}

PS_NOINLINE void ps_heap_free_doubtful(void *block, struct ps_span *span) {
    ps_free_check(span, block);
    if (ps_heap_push(span, block)) {
        ps_heap_free_event(block, span);
    }
    ps_thread_leave();
}

/* ---- realloc ---- */

size_t ps_block_usable(const void *block) {
    if (block == NULL) {
        return 0;
    }
    if (PS_LIKELY(ps_front_may_serve())) {
        return ps_mode.front.usable != NULL ? ps_mode.front.usable(block)
                                            : ps_front_usable_plain(block);
    }
    ps_thread_enter();
    size_t usable = PS_LIKELY(ps_thread_own() != NULL) ? ps_mode.entry.usable(block)
                                                       : ps_detached_usable(block);
    ps_thread_leave();
    return usable;
}

void *ps_block_resize(void *block, size_t bytes) {
    if (PS_LIKELY(ps_front_may_serve())) {
        return ps_mode.front.resize != NULL ? ps_mode.front.resize(block, bytes)
                                            : ps_front_resize_plain(block, bytes);
    }
    ps_thread_enter();
    void *resized = PS_LIKELY(ps_thread_own() != NULL) ? ps_mode.entry.resize(block, bytes)
                                                       : ps_detached_resize(block, bytes);
    ps_thread_leave();
    return resized;
}
