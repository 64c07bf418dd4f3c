/* SPDX-License-Identifier: MIT */
/*
 * See hard_quarantine.h.
 */
#include "pools/engine/harden/hard_quarantine.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/wipe.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

#include <string.h>

#define HELD_LIMIT 256 /* quarantined blocks per class; at level 2 an eighth of that */
#define HELD_LEAST 4
#define HELD_BYTES ((size_t)512 << 10) /* and their bytes, likewise */
#define READY_LIMIT 32
#define READY_LEAST 2
#define READY_BYTES ((size_t)16 << 10)
#define NEVER_COUNTED (-(1 << 30))

static void set_limits(struct ps_hard_class *class, size_t block_bytes) {
    size_t share = ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? 1 : 8;
    size_t held = ps_max(HELD_BYTES / share / block_bytes, HELD_LEAST);
    size_t ready = ps_max(READY_BYTES / block_bytes, READY_LEAST);
    class->block_bytes = block_bytes;
    class->held_limit = (uint16_t)ps_min(held, HELD_LIMIT / share);
    class->ready_limit = (uint16_t)ps_min(ready, READY_LIMIT);
}

/* The first value of became_ready: blocks are never counted, each by itself, or some at a time. */
static int32_t first_count(void) {
    if (ps_guard_period == 0) {
        return NEVER_COUNTED;
    }
    return ps_guard_is_exact() ? PS_READY_COUNTED : 0;
}

struct ps_hard *ps_hard_make(void) {
    size_t rows = sizeof(void *) * PS_CLASS_LIMIT * (HELD_LIMIT + READY_LIMIT);
    struct ps_hard *hard = ps_metadata_map(ps_round_up(sizeof *hard + rows, PS_GRANULE_BYTES));
    if (hard == NULL) {
        return NULL;
    }
    hard->random = ps_os_random();
    hard->became_ready = first_count();
    void **row = (void **)(hard + 1);
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        struct ps_hard_class *class = &hard->classes[i];
        set_limits(class, ps_size_classes[i].block_bytes);
        class->held = row;
        row += class->held_limit;
        class->ready = (uintptr_t *)row;
        row += class->ready_limit;
    }
    return hard;
}

/* ---- from spans ---- */

/* Inserts at a random place; the block that was there becomes the last. */
static void add_ready(struct ps_hard *hard, struct ps_hard_class *class, uintptr_t ready) {
    PS_CHECK(ps_thread_is_inside());
    size_t index = ps_hard_random_below(hard, (size_t) class->ready_count + 1);
    class->ready[class->ready_count++] = class->ready[index];
    class->ready[index] = ready;
}

/*
 * A block from a window has not passed through a free. It is zero if its memory was never used, and
 * is not touched then, which saves a page fault per fresh page. Otherwise it is zeroed before it
 * counts as handed: its shadow byte may be that of a free block, which the sweep of another thread,
 * or of the child of a fork at this moment, expects to be zero.
 */
static void *take_fresh(struct ps_bin *bin, struct ps_span *source) {
    if (bin->cur != bin->end && !bin->is_zero) {
        ps_wipe(bin->cur, bin->block_bytes);
        ps_fence_program_order();
    }
    return ps_bin_move(bin, source);
}

void *ps_hard_take(struct ps_heap *heap, uint32_t class_index) {
    struct ps_span *source = heap->current[class_index];
    return !ps_link_is_end(source->free) ? ps_heap_pop(source)
                                         : take_fresh(&heap->bins[class_index], source);
}

/* The entry of ready for a block that the bin has granted last. */
static uintptr_t ready_from(const struct ps_bin *bin, void *block) {
    bool is_fresh = (char *)block + bin->block_bytes == bin->cur;
    return (uintptr_t)block | (is_fresh ? PS_READY_FRESH : 0);
}

static void fill_ready(struct ps_heap *heap, struct ps_hard_class *class, uint32_t class_index) {
    struct ps_hard *hard = heap->hard;
    struct ps_bin *bin = &heap->bins[class_index];
    struct ps_span *source = heap->current[class_index];
    while (class->ready_count < class->ready_limit && !ps_link_is_end(source->free)) {
        add_ready(hard, class, (uintptr_t)ps_heap_pop(source));
    }
    while (class->ready_count < class->ready_limit && bin->cur != bin->end) {
        add_ready(hard, class, (uintptr_t)take_fresh(bin, source) | PS_READY_FRESH);
    }
}

void *ps_hard_take_or_refill(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    void *block = ps_hard_take(heap, class_index);
    /* Not ps_heap_refill, which ends the call's access to the heap. */
    return block != NULL ? block : ps_mode.hook.refill(heap, &heap->bins[class_index], bytes);
}

PS_NOINLINE void *ps_hard_refill(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    struct ps_bin *bin = &heap->bins[class_index];
    void *block = ps_hard_take_or_refill(heap, class_index, bytes);
    if (block == NULL || ps_hard_is_sample(block)) {
        return block;
    }
    struct ps_hard_class *class = &heap->hard->classes[class_index];
    add_ready(heap->hard, class, ready_from(bin, block));
    fill_ready(heap, class, class_index);
    return NULL;
}

/* ---- to spans ---- */

PS_NOINLINE void ps_hard_return(struct ps_heap *heap, void *block) {
    struct ps_span *span = ps_span_of_inside(ps_page_map_slot(block), block);
    if (!ps_heap_owns(heap, span)) {
        ps_remote_free(heap, span, block);
    } else if (ps_heap_push(span, block)) {
        ps_heap_free_event_within(block, span);
    }
}

/* Returns the blocks of a private array, because events on the way may change `ready`. Blocks of
 * one granule usually follow each other, so their span is looked up once. */
static void return_array(struct ps_heap *heap, const uintptr_t *blocks, size_t count) {
    struct ps_span *span = NULL; /* of this heap, of the granule that contains `inside` */
    uintptr_t inside = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t block = blocks[i] & ~PS_READY_FRESH;
        if (span == NULL || ((block ^ inside) >> PS_GRANULE_SHIFT) != 0) {
            span = ps_span_of_inside(ps_page_map_slot((void *)block), (void *)block);
            inside = block;
        }
        PS_CHECK(ps_thread_is_inside());
        if (PS_UNLIKELY(!ps_heap_owns(heap, span))) {
            ps_remote_free(heap, span, (void *)block);
        } else if (PS_UNLIKELY(ps_heap_push(span, (void *)block))) {
            ps_heap_free_event_within((void *)block, span);
            span = NULL; /* it may have ended */
        }
    }
}

PS_NOINLINE void ps_hard_overflow(struct ps_heap *heap, uint32_t class_index) {
    struct ps_hard_class *class = &heap->hard->classes[class_index];
    uintptr_t older[READY_LIMIT];
    size_t count = (class->ready_count + 1u) / 2;
    memcpy(older, class->ready, count * sizeof older[0]);
    class->ready_count = (uint16_t)(class->ready_count - count);
    if (ps_guard_period != 0) {
        heap->hard->became_ready -= (int32_t)count;
    }
    memmove(class->ready, class->ready + count, class->ready_count * sizeof older[0]);
    return_array(heap, older, count);
}

/* Counts for guarded samples, when it is time to. */
static void count_if_due(struct ps_heap *heap, uint32_t class_index) {
    struct ps_hard *hard = heap->hard;
    if (hard->became_ready < PS_READY_COUNTED) {
        return;
    }
    if (ps_guard_period == 0) {
        hard->became_ready = NEVER_COUNTED;
    } else {
        ps_hard_count_ready(heap, class_index);
    }
}

PS_NOINLINE void ps_hard_hold(struct ps_heap *heap, uint32_t class_index, void *block) {
    struct ps_hard *hard = heap->hard;
    struct ps_hard_class *class = &hard->classes[class_index];
    PS_CHECK(ps_thread_is_inside());
    if (class->held_count == class->held_limit && ps_guard_is_exact()) {
        size_t index = ps_hard_random_below(hard, class->held_limit);
        void *other = class->held[index];
        class->held[index] = block;
        ps_hard_return(heap, other);
        return;
    }
    if (class->held_count == class->held_limit) {
        count_if_due(heap, class_index);
        if (class->ready_count == class->ready_limit) {
            ps_hard_overflow(heap, class_index);
        }
    }
    if (class->held_count < class->held_limit) { /* or an event has emptied it */
        class->held[class->held_count++] = block;
        return;
    }
    (void)ps_hard_swap(hard, class, block);
}

/* For callers that may be inside of an event. */
static void return_without_events(struct ps_heap *heap, void *block) {
    struct ps_span *span = ps_span_of_inside(ps_page_map_slot(block), block);
    if (!ps_heap_owns(heap, span)) {
        ps_remote_free(heap, span, block);
        return;
    }
    ps_bin_settle(&heap->bins[span->class_index], span);
    ps_span_give_list(span, block, block, 1);
    ps_heap_span_gained(heap, span);
}

static void flush_ready(struct ps_heap *heap, struct ps_hard_class *class) {
    while (class->ready_count != 0) {
        return_without_events(heap, (void *)(class->ready[--class->ready_count] & ~PS_READY_FRESH));
    }
}

PS_NOINLINE void ps_hard_count_ready(struct ps_heap *heap, uint32_t class_index) {
    ps_guard_count(&heap->guard, heap->hard->became_ready);
    heap->hard->became_ready = 0;
    if (ps_guard_is_due(&heap->guard)) {
        flush_ready(heap, &heap->hard->classes[class_index]);
    }
}

void ps_hard_flush(struct ps_heap *heap, uint32_t class_index) {
    if (heap->hard == NULL) {
        return;
    }
    struct ps_hard_class *class = &heap->hard->classes[class_index];
    while (class->held_count != 0) {
        return_without_events(heap, class->held[--class->held_count]);
    }
    flush_ready(heap, class);
}

void ps_hard_flush_all(struct ps_heap *heap) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_hard_flush(heap, i);
    }
}

size_t ps_hard_count(const struct ps_heap *heap, uint32_t class_index) {
    bool is_hard = ps_hard_level >= PS_HARDEN_CHECK_BLOCKS; /* else the word is another mode's */
    if (!is_hard || heap->hard == NULL) {
        return 0;
    }
    const struct ps_hard_class *class = &heap->hard->classes[class_index];
    return (size_t) class->held_count + class->ready_count;
}
