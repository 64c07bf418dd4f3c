/* SPDX-License-Identifier: MIT */
/*
 * Blocks that go home: frees of another owner's blocks, gathered per span and handed over in
 * batches; and the wake list, by which an owner learns that a span is worth looking at again.
 * Lock-free, except that waking an orphan takes the orphan lock.
 */
#include "pools/base/bits.h"
#include "pools/heap/heap.h"
#include "pools/small/central.h"
#include "pools/small/span_list.h"
#include "pools/small/span_remote.h"

#define BATCH_BLOCKS 64                /* most blocks in a batch */
#define BATCH_BYTES ((size_t)16 << 10) /* most bytes in a batch: bounds what lags behind */

static void push_wake(struct ps_heap *owner, struct ps_span *span) {
    struct ps_span *head = ps_load_relaxed(&owner->x_wake); /* relaxed: the swap validates it */
    do {
        ps_store_relaxed(&span->x_wake_next, head); /* relaxed: released by the swap */
        /* release: pairs with the acquire in ps_heap_take_wakes; makes x_wake_next visible. */
    } while (!ps_cas_weak_release(&owner->x_wake, &head, span));
}

void ps_wake_owner(struct ps_span *span) {
    /* Ends after one round, but for an owner that changes at this very moment; a span changes
     * owners once in the life of a thread. */
    for (;;) {
        uintptr_t key = ps_load_acquire(&span->x_owner); /* acquire: the new owner's set-up */
        if (key == PS_KEY_ORPHAN) {
            if (ps_central_wake(span)) {
                return;
            }
            continue;
        }
        struct ps_heap *owner = ps_heap_of_key(key);
        /* relaxed: set in the child of a fork before any other thread exists there. */
        if (ps_load_relaxed(&owner->x_state) == PS_HEAP_DEAD) {
            if (ps_central_salvage(span, key)) {
                return;
            }
            continue;
        }
        push_wake(owner, span);
        return;
    }
}

/* One span off the wake list of its owner. */
static void look_at(struct ps_heap *heap, struct ps_span *span) {
    ps_span_clear_queued(span);
    if (span->place == PS_PLACE_CURRENT) {
        return; /* the next refill collects */
    }
    ps_span_settle(span);
    ps_span_collect(span);
    ps_heap_span_gained(heap, span);
}

void ps_heap_take_wakes(struct ps_heap *heap) {
    /* relaxed: a look; a wake missed now is found at the next refill. */
    if (PS_LIKELY(ps_load_relaxed(&heap->x_wake) == NULL)) {
        return;
    }
    bool is_dead =
        ps_load_relaxed(&heap->x_state) == PS_HEAP_DEAD; /* relaxed: as in ps_wake_owner */
    /* acquire: pairs with push_wake. */
    struct ps_span *span = ps_exchange_acquire(&heap->x_wake, (struct ps_span *)NULL);
    while (span != NULL) {
        struct ps_span *next = ps_load_relaxed(&span->x_wake_next); /* relaxed: acquired above */
        if (!is_dead && ps_heap_owns(heap, span)) {
            look_at(heap, span);
        } else {
            ps_wake_owner(span); /* sent while it changed hands, or to the dead */
        }
        span = next;
    }
}

static void flush(struct ps_heap *heap, struct ps_remote_entry *entry) {
    struct ps_span *span = entry->span;
    if (span == NULL) {
        return;
    }
    entry->span = NULL;
    if (entry->count == 0) {
        return;
    }
    ps_owner_add(&heap->x_remote_frees, entry->count);
    ps_owner_add(&heap->x_remote_batches, 1);
    if (ps_span_hand_list(span, entry->head, entry->tail, entry->count)) {
        ps_wake_owner(span);
    }
}

/* The batch is full: a sequence goes on as a hot run, which the newest block opens. */
static PS_NOINLINE void batch_full(struct ps_heap *heap, struct ps_remote_entry *entry) {
    struct ps_span *span = entry->span;
    void *newest = entry->head;
    ptrdiff_t step = entry->count >= 3 ? ps_run_step_of(span, newest) : 0;
    if (step != 0) {
        entry->head = *(void **)newest;
        entry->count--;
        ps_run_open(heap, span, newest, step);
    }
    flush(heap, entry);
}

void ps_remote_free(struct ps_heap *heap, struct ps_span *span, void *block) {
    size_t index = ((uintptr_t)span >> PS_SLOT_SHIFT) % PS_REMOTE_ENTRIES;
    struct ps_remote_entry *entry = &heap->remote[index];
    if (PS_UNLIKELY(entry->span != span)) {
        flush(heap, entry);
        entry->span = span;
        entry->head = NULL;
        entry->tail = block;
        entry->count = 0;
        entry->limit = (uint32_t)ps_min(BATCH_BLOCKS, ps_max(BATCH_BYTES / span->block_bytes, 1));
    }
    *(void **)block = entry->head;
    entry->head = block;
    if (PS_UNLIKELY(++entry->count >= entry->limit)) {
        batch_full(heap, entry);
    }
}

void ps_remote_flush(struct ps_heap *heap) {
    for (size_t i = 0; i < PS_REMOTE_ENTRIES; i++) {
        flush(heap, &heap->remote[i]);
    }
}
