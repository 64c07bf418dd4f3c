/* SPDX-License-Identifier: MIT */
/*
 * Remote frees, collected per span and transferred in batches; and the list of notices, which names
 * the spans that an owner should collect. Lock-free, except that notices to orphans take the orphan
 * lock.
 */
#include "pools/engine/heap/remote.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/link.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

#define BATCH_BLOCKS 64                /* maximum blocks of a batch */
#define BATCH_BYTES ((size_t)16 << 10) /* maximum bytes of a batch: bounds the delayed memory */

#define NOTICES_AT_ONCE 256 /* spans that an owner collects per call */

/* Pushes a chain of spans, linked by x_notice_next, on the list of notices. */
void ps_heap_push_notices(struct ps_heap *owner, struct ps_span *first, struct ps_span *last) {
    struct ps_span *head = ps_load_relaxed(&owner->x_notices); /* relaxed: the swap validates it */
    do {
        ps_store_relaxed(&last->x_notice_next, head); /* relaxed: released by the swap */
        /* release: pairs with the acquire in take_list; makes x_notice_next visible. seq_cst: see
         * ps_heap_forward_notices. */
    } while (!ps_cas_weak_seq_cst(&owner->x_notices, &head, first));
}

/* Takes the rest of the last list, or else the list. */
static struct ps_span *take_list(struct ps_heap *heap) {
    if (ps_load_relaxed(&heap->x_notices_rest) != NULL) { /* relaxed: the exchange decides */
        /* acquire: pairs with leave_rest. */
        struct ps_span *rest = ps_exchange_acquire(&heap->x_notices_rest, (struct ps_span *)NULL);
        if (rest != NULL) {
            return rest;
        }
    }
    ps_store_relaxed(&heap->x_back, 0u); /* relaxed: see ps_steal_note_back */
    /* acquire: pairs with ps_heap_push_notices. seq_cst: see ps_heap_forward_notices. */
    return ps_exchange_seq_cst(&heap->x_notices, (struct ps_span *)NULL);
}

/* Owner: leaves the rest of a list to the next call, or to a stealing thread. */
static void leave_rest(struct ps_heap *heap, struct ps_span *rest) {
    /* release: pairs with take_list and with take of remote_steal.c; the links are read there. */
    ps_store_release(&heap->x_notices_rest, rest);
}

void ps_heap_notify_all(struct ps_span *span) {
    while (span != NULL) {
        struct ps_span *next = ps_load_relaxed(&span->x_notice_next); /* relaxed: acquired before */
        ps_notify_owner(span);
        span = next;
    }
}

/*
 * A notice sent to a heap whose thread is just ending must not be left there. Either the sender
 * reads PARKED after its push, or the ending thread finds the push after it stored PARKED: each
 * reads after its own write, so all four accesses are seq_cst. The one that finds the notice takes
 * the list.
 */
void ps_heap_forward_notices(struct ps_heap *heap) {
    if (ps_load_seq_cst(&heap->x_state) == PS_HEAP_PARKED) {
        ps_heap_notify_all(take_list(heap)); /* the rest was taken at the end of the thread */
    }
}

void ps_heap_park(struct ps_heap *heap) {
    ps_registry_park(heap);
    ps_heap_forward_notices(heap); /* sent since they were last taken */
}

/*
 * Chooses an adopter for a span whose thread has ended: the thread that frees its blocks, which
 * will usually free more of them, unless that thread has enough room in its class, or runs on
 * another node. NULL: the orphans.
 */
static struct ps_heap *adopter_of(const struct ps_span *span) {
    struct ps_heap *heap = ps_thread_own();
    /* The last: it may be in the middle of a change. */
    if (heap == NULL || ps_lock_is_forking()) {
        return NULL;
    }
    PS_CHECK(ps_thread_is_inside()); /* otherwise it may be taken meanwhile */
    bool is_near = span->run.node == ps_node_here();
    return is_near && heap->available[span->class_index] == NULL ? heap : NULL;
}

static uintptr_t key_of_adopter(const struct ps_heap *adopter, const struct ps_span *span) {
    return adopter != NULL ? ps_heap_key_of(adopter, span->class_index) : PS_KEY_ORPHAN;
}

static void adopted(struct ps_heap *adopter, struct ps_span *span) {
    if (adopter != NULL) {
        ps_add_relaxed(&adopter->x_spans[span->class_index], 1u); /* relaxed: a count */
        ps_heap_take_in(adopter, span);
    }
}

void ps_notify_owner(struct ps_span *span) {
    /* Ends after one round, unless the owner changes at this moment; a span changes owners once in
     * the life of a thread. */
    for (;;) {
        uintptr_t key = ps_load_acquire(&span->x_owner); /* acquire: the new owner's set-up */
        struct ps_heap *adopter = adopter_of(span);
        if (key == PS_KEY_ORPHAN) {
            enum ps_orphan_notice result = ps_orphans_notice(span, key_of_adopter(adopter, span));
            if (result == PS_ORPHAN_ADOPTED) {
                adopted(adopter, span);
            }
            if (result != PS_ORPHAN_OWNED) {
                return;
            }
            continue;
        }
        struct ps_heap *owner = ps_heap_of_key(key);
        /* relaxed: DEAD is set in the child of a fork before it has a second thread; PARKED is read
         * again under the lock. */
        uint32_t state = ps_load_relaxed(&owner->x_state);
        if (state == PS_HEAP_DEAD) {
            if (ps_orphans_salvage(span, key)) {
                return;
            }
            continue;
        }
        if (state == PS_HEAP_PARKED) {
            if (ps_heap_leave_parked(span, key, key_of_adopter(adopter, span))) {
                adopted(adopter, span);
                return;
            }
            continue;
        }
        ps_heap_push_notices(owner, span, span);
        ps_heap_forward_notices(owner);
        return;
    }
}

void ps_remote_handed(struct ps_span *span, unsigned handed) {
    struct ps_heap *owner = NULL;
    if ((handed & PS_HANDED_ALL) != 0) { /* after the notice the span may no longer exist */
        uintptr_t key = ps_load_acquire(&span->x_owner); /* acquire: as in ps_notify_owner */
        owner = key > PS_KEY_ORPHAN ? ps_heap_of_key(key) : NULL;
    }
    if ((handed & PS_HANDED_NOTICE) != 0) {
        ps_notify_owner(span);
    }
    if (owner != NULL) {
        ps_steal_note_back(owner);
    }
}

/* Collects one span named by a notice. */
static void collect_noticed(struct ps_heap *heap, struct ps_span *span) {
    ps_span_attach(span);
    ps_span_clear_queued(span);
    if (span->place == PS_PLACE_CURRENT) {
        return; /* the next refill collects it */
    }
    ps_span_settle(span);
    ps_span_collect(span);
    ps_heap_span_gained(heap, span);
}

/* Collects `count` spans of a list; returns the rest of it. */
static struct ps_span *collect_noticed_list(struct ps_heap *heap, struct ps_span *span,
                                            size_t count) {
    /* relaxed: as in ps_notify_owner. */
    bool is_dead = ps_load_relaxed(&heap->x_state) == PS_HEAP_DEAD;
    for (; span != NULL && count > 0; count--) {
        struct ps_span *next = ps_load_relaxed(&span->x_notice_next); /* relaxed: acquired before */
        if (!is_dead && ps_heap_owns(heap, span)) {
            collect_noticed(heap, span);
        } else {
            ps_notify_owner(span); /* sent while the owner changed, or to a DEAD heap */
        }
        span = next;
    }
    return span;
}

static bool has_notices(const struct ps_heap *heap) {
    /* relaxed, both: a hint; a notice missed here is found by the next refill. */
    return ps_load_relaxed(&heap->x_notices) != NULL ||
           ps_load_relaxed(&heap->x_notices_rest) != NULL;
}

void ps_heap_take_notices(struct ps_heap *heap) {
    if (PS_LIKELY(!has_notices(heap))) {
        return;
    }
    struct ps_span *rest = collect_noticed_list(heap, take_list(heap), NOTICES_AT_ONCE);
    if (rest != NULL) {
        leave_rest(heap, rest);
    }
}

void ps_heap_take_all_notices(struct ps_heap *heap) {
    while (has_notices(heap)) { /* ends: each span sends one notice */
        (void)collect_noticed_list(heap, take_list(heap), SIZE_MAX);
    }
}

/* ---- when memory is exhausted ---- */

/* Full spans with freed blocks, linked by x_notice_next. */
struct freed {
    const struct ps_heap *heap;
    struct ps_span *first;
    struct ps_span *last;
};

static bool has_freed(const struct ps_span *span) {
    /* relaxed, both: this thread's own, unless the span is being stolen (small/span_remote.h). */
    bool is_by_owner =
        ps_load_relaxed(&span->free_countdown) != ps_load_relaxed(&span->countdown_start);
    /* One that is lent may be stolen, and returned without the page lock. */
    return is_by_owner || (span->lent_at == 0 && ps_span_remote_blocks(span) != 0);
}

/*
 * Queues a notice of a span. Another thread may be about to steal that, which it has to queue
 * before, and to return it, which takes the page lock. So the span is still this heap's if it is
 * not QUEUED, and cannot be stolen once it is: some of its blocks are out, or on the owner's list.
 */
static void note_freed(struct ps_slot *slot, void *context) {
    struct freed *freed = context;
    struct ps_span *span = ps_span_of_slot(slot);
    /* relaxed: a kind that matters is this thread's own store. */
    bool is_full = ps_load_relaxed(&slot->run.kind) == PS_RUN_SPAN &&
                   ps_heap_owns(freed->heap, span) && span->place == PS_PLACE_FULL;
    if (!is_full || !has_freed(span) || !ps_span_queue(span)) {
        return;
    }
    ps_store_relaxed(&span->x_notice_next, freed->first); /* relaxed: released by the push */
    freed->last = freed->first == NULL ? span : freed->last;
    freed->first = span;
}

static bool collect(struct ps_heap *heap) {
    struct freed freed = {.heap = heap};
    ps_page_cache_walk(note_freed, &freed);
    bool is_any = freed.first != NULL;
    if (is_any) {
        ps_heap_push_notices(heap, freed.first, freed.last);
        ps_heap_take_all_notices(heap);
    }
    heap->collect_pause = is_any ? 0 : (uint8_t)(heap->collect_pause * 2 + 1);
    heap->collect_wait = heap->collect_pause;
    return is_any;
}

PS_COLD void ps_remote_collect_full(struct ps_heap *heap) {
    heap->has_collected = heap->collect_wait == 0;
    if (heap->has_collected) {
        (void)collect(heap);
    } else {
        heap->collect_wait--;
    }
}

PS_COLD bool ps_remote_collect_rest(struct ps_heap *heap) {
    bool is_any = !heap->has_collected && collect(heap);
    heap->has_collected = true;
    return is_any;
}

/* ---- batches ---- */

static void flush(struct ps_heap *heap, struct ps_remote_entry *entry) {
    struct ps_span *span = entry->span;
    if (span == NULL) {
        return;
    }
    entry->span = NULL;
    if (entry->count == 0) {
        return;
    }
    ps_span_check_waiting(span, entry->tail);
    ps_owner_add(&heap->x_remote_frees, entry->count);
    ps_owner_add(&heap->x_remote_batches, 1);
    ps_remote_handed(span, ps_span_hand_list(span, entry->head, entry->tail, entry->count));
}

/* Transfers a full batch. A sequence continues as a free streak, which the newest block opens. */
static PS_NOINLINE void batch_full(struct ps_heap *heap, struct ps_remote_entry *entry) {
    struct ps_span *span = entry->span;
    void *newest = entry->head;
    ptrdiff_t step = entry->count >= 3 ? ps_streak_step_of(span, newest) : 0;
    if (step != 0) {
        entry->head = ps_heap_next(span, newest);
        ps_link_clear(newest);
        entry->count--;
        ps_streak_open(heap, span, newest, step);
    }
    flush(heap, entry);
}

void ps_remote_return(void *block) {
    struct ps_span *span = ps_span_at(block);
    ps_span_check_waiting(span, block);
    unsigned handed = ps_span_hand_one(span, block);
    if (PS_UNLIKELY(handed != 0)) {
        ps_remote_handed(span, handed);
    }
}

static PS_NOINLINE void hand_singles(struct ps_heap *heap) {
    for (uint32_t i = 0; i < heap->singles_count; i++) {
        __builtin_prefetch(&ps_span_at(heap->singles[i])->x_remote, 1);
    }
    for (uint32_t i = heap->singles_count; i-- > 0;) {
        void *block = heap->singles[i];
        heap->singles_count = i;
        ps_fence_program_order(); /* as in flush */
        ps_owner_add(&heap->x_remote_frees, 1);
        ps_owner_add(&heap->x_remote_batches, 1);
        ps_remote_return(block);
    }
}

/* Adds a block whose span is not worth an entry to an array, which is transferred when it is full.
 */
static inline void add_single(struct ps_heap *heap, struct ps_span *span, void *block) {
    ps_link_store(block, ps_span_waiting_link(span)); /* so that a second free is found */
    heap->singles[heap->singles_count] = block;
    ps_fence_program_order();
    if (PS_UNLIKELY(++heap->singles_count == PS_REMOTE_SINGLES)) {
        hand_singles(heap);
    }
}

static inline void add_to_batch(struct ps_heap *heap, struct ps_remote_entry *entry,
                                struct ps_span *span, void *block) {
    ps_link_write(block, entry->head, ps_load_relaxed(&span->salt)); /* relaxed: as in flush */
    entry->head = block;
    if (PS_UNLIKELY(++entry->count >= entry->limit)) {
        batch_full(heap, entry);
    }
}

static PS_NOINLINE void open_batch(struct ps_heap *heap, struct ps_remote_entry *entry,
                                   struct ps_span *span, void *block) {
    flush(heap, entry);
    entry->span = span;
    entry->head = ps_span_list_end(span);
    entry->tail = block;
    entry->count = 0;
    entry->limit = (uint16_t)ps_min(BATCH_BLOCKS, ps_max(BATCH_BYTES / span->block_bytes, 1));
    add_to_batch(heap, entry, span, block);
}

/* Unusual cases leave by a tail call, so that the usual cases save no register. */
void ps_remote_free(struct ps_heap *heap, struct ps_span *span, void *block) {
    size_t index = ((uintptr_t)span >> PS_SLOT_SHIFT) % PS_REMOTE_ENTRIES;
    struct ps_remote_entry *entry = &heap->remote[index];
    uint32_t contender = (uint32_t)(uintptr_t)span;
    if (PS_LIKELY(entry->span == span)) {
        add_to_batch(heap, entry, span, block);
    } else if (PS_LIKELY(entry->contender != contender && entry->span != NULL &&
                         span->factor != 0)) { /* a span of one granule */
        entry->contender = contender;
        add_single(heap, span, block);
    } else {
        open_batch(heap, entry, span, block);
    }
}

PS_COLD void ps_remote_free_at_once(struct ps_span *span, void *block) {
    ps_remote_handed(span, ps_span_hand_list(span, block, block, 1));
}

void ps_remote_flush(struct ps_heap *heap) {
    for (size_t i = 0; i < PS_REMOTE_ENTRIES; i++) {
        flush(heap, &heap->remote[i]);
    }
    hand_singles(heap);
}
