/* SPDX-License-Identifier: MIT */
/*
 * Slow paths of free: blocks of other owners, of spans of several granules and of no class, events
 * of a span; and the plain mode's entry point. Called from fast_path.h and by the modes. No locks
 * of its own.
 */
#include "pools/engine/heap/free.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/alloc.h"
#include "pools/engine/heap/detached.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/resize.h"
#include "pools/engine/heap/thread.h"

/* ---- slow paths ---- */

/* heap: NULL if there is none. */
static PS_NOINLINE void free_medium(struct ps_heap *heap, struct ps_slot *slot, void *block) {
    if (ps_medium_free(heap, slot, block)) {
        heap->tick_countdown = 0;
        ps_heap_tick(heap); /* last: it may return all cached blocks */
    }
    ps_thread_leave();
}

static PS_NOINLINE void free_other(struct ps_heap *heap, struct ps_span *span, void *block,
                                   uintptr_t owner_key) {
    if (PS_UNLIKELY(heap == NULL && ps_thread_own() == NULL)) {
        ps_detached_free(span, block, owner_key);
    } else if (block != NULL) { /* the streak of step 0 accepts NULL, unless the heap was taken */
        ps_mode.entry.free_block(span, block, owner_key);
    }
    ps_thread_leave();
}

/* A block of another heap's, in a span of one granule. */
static PS_NOINLINE void free_remote(struct ps_heap *heap, struct ps_span *span, void *block) {
    /* relaxed, both: as in ps_span_is_unhanded and ps_span_is_listed. */
    bool is_handed = ps_span_scaled(span, block) < ps_load_relaxed(&span->handed);
    void *link = ps_link_of(block, ps_load_relaxed(&span->salt));
    if (PS_UNLIKELY(!is_handed || ps_link_is_near(block, link))) {
        ps_free_check(span, block);
    }
    ps_remote_free(heap, span, block);
    ps_thread_leave();
}

static inline bool is_of_other_heap(const struct ps_heap *heap, uintptr_t owner_key) {
    /* relaxed: this thread's own. Not of a mode that checks each free. */
    return (owner_key & PS_KEY_MASK) == PS_KEY_AT_ONCE &&
           ps_load_relaxed(&ps_thread.key) == ps_heap_key(heap);
}

PS_NOINLINE void ps_heap_free_slow(void *block, struct ps_span *span, uintptr_t owner_key) {
    struct ps_heap *heap = ps_thread_fast();
    if (heap != NULL && is_of_other_heap(heap, owner_key)) {
        free_remote(heap, span, block);
    } else if (owner_key != PS_KEY_MEDIUM || PS_UNLIKELY(heap == NULL)) {
        free_other(heap, span, block, owner_key);
    } else if (PS_UNLIKELY(!ps_medium_free_soon(&heap->medium, (struct ps_slot *)span, block))) {
        free_medium(heap, (struct ps_slot *)span, block);
    } else {
        ps_thread_leave();
    }
}

PS_NOINLINE void ps_heap_free_event(void *block, struct ps_span *span) {
    /* Not this thread's word, which may be NULL for a moment: see ps_thread_own. relaxed: it is
     * this thread's heap. */
    struct ps_heap *heap = ps_heap_of_key(ps_load_relaxed(&span->x_owner));
    uint32_t class_index = span->class_index;
    int64_t popped = span->popped;
    if (span->place == PS_PLACE_FULL) {
        popped = ps_heap_swap_in(heap, span);
    }
    ps_span_settle(span);
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
    ps_heap_tick(heap); /* last: it may release any span that is not current, including this one */
    ps_thread_leave();
}

PS_NOINLINE void ps_heap_free_doubtful(void *block, struct ps_span *span) {
    ps_free_check(span, block);
    if (ps_heap_push(span, block)) {
        ps_heap_free_event(block, span);
    }
    ps_thread_leave();
}

/* ---- the plain mode, and parts that other modes use ---- */

static inline struct ps_heap *own_heap(void) {
    struct ps_heap *heap = ps_thread_own();
    return PS_LIKELY(heap != NULL) ? heap : ps_heap_acquire();
}

static inline void free_foreign_owner(struct ps_span *span, void *block) {
    struct ps_heap *heap = own_heap();
    if (PS_UNLIKELY(heap == NULL)) {
        ps_remote_free_at_once(span, block);
    } else if (!ps_heap_owns(heap, span)) {
        ps_remote_free(heap, span, block);
    } else if (ps_heap_push(span, block)) {
        ps_heap_free_event(block, span);
    }
}

void ps_heap_free_foreign_owner(struct ps_span *span, void *block) {
    free_foreign_owner(span, block);
}

void ps_free_large(struct ps_slot *slot, void *block) {
    if (ps_block_is_medium(slot)) {
        free_medium(own_heap(), slot, block);
        return;
    }
    if (!ps_block_is_large(slot, block)) {
        ps_mode.hook.stray_free(slot, block);
        return;
    }
    ps_large_free(slot);
    struct ps_heap *heap = ps_thread_own();
    if (heap != NULL) {
        ps_heap_tick(heap);
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
    free_foreign_owner(span, block);
}
