/* SPDX-License-Identifier: MIT */
/*
 * Stealing, see remote.h. Lock: steal_lock, held by the stealing thread; takes the page lock. A
 * partly processed list, and the position of the walk over heaps, are kept in `steal` and
 * `x_cursor` between calls.
 */
#include "pools/engine/heap/remote.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/span_remote.h"

#define SPANS_PER_TICK 256  /* notices per call; each steal takes the page lock */
#define SPANS_PER_REFILL 32 /* costs less than the page faults of a fresh span */
#define HEAPS_PER_TICK 64
#define STEAL_MIN_SPANS 8 /* fully free spans worth a search before fresh memory */
#define WALKS_PER_DELAY 4

static struct ps_lock steal_lock = PS_LOCK_INIT(PS_RANK_STEAL);
static uint64_t x_next_walk_ms;
static struct ps_heap *x_cursor; /* position of the walk over heaps; NULL: none under way */
static struct ps_heap *x_steal_candidate; /* a heap with many free spans; heaps are never freed */

/* Notices that are being processed, for the child of a fork. Steal lock. */
static struct {
    struct ps_heap *from;
    struct ps_span *rest; /* taken from there, not processed; or, not taken yet, still its list */
    struct ps_span *now;  /* being processed; briefly the first of `rest` or `kept` too */
    struct ps_span *kept; /* to be sent again */
    bool is_busy;         /* a thread is between start and end of steal_some */
} steal;

static uint64_t idle_ms(void) { return ps_retention_delay_ms() / WALKS_PER_DELAY; }

/* relaxed, all: hints. No notice is missed: x_back is cleared before a list is taken, and a notice
 * that is not on that list was sent, and counted, afterwards. */
void ps_steal_note_back(struct ps_heap *owner) {
    if (ps_add_relaxed(&owner->x_back, 1u) + 1 >= STEAL_MIN_SPANS) {
        ps_store_relaxed(&x_steal_candidate, owner);
    }
}

/* Notices of a heap whose thread has ended are forwarded by others. relaxed: a notice that is taken
 * and kept is forwarded too. */
static bool has_spans_to_steal(const struct ps_heap *heap) {
    uint32_t state = ps_load_relaxed(&heap->x_state);
    return state == PS_HEAP_LIVE || state == PS_HEAP_SHARED;
}

/* Takes a list of notices into steal.rest. The child of a fork must not lose the list in between:
 * steal.rest is written before the list is taken. Returns false when the list was empty. */
static bool take(struct ps_span **list) {
    steal.rest = ps_load_relaxed(list); /* relaxed: the swap validates it, NULL too */
    ps_fence_program_order();
    /* acquire: pairs with ps_heap_push_notices and with leave_rest. seq_cst: see
     * ps_heap_forward_notices. */
    while (!ps_cas_weak_seq_cst(list, &steal.rest, (struct ps_span *)NULL)) {
    }
    return steal.rest != NULL;
}

static void take_from(struct ps_heap *heap) {
    steal.from = heap;
    if (!take(&heap->x_notices_rest)) {      /* x_back counts the list, not the rest */
        ps_store_relaxed(&heap->x_back, 0u); /* relaxed: see ps_steal_note_back */
        (void)take(&heap->x_notices);
    }
}

/* Processes the first remaining span. Returns whether it was stolen. */
static bool steal_next(void) {
    struct ps_span *span = steal.rest;
    steal.now = span;
    ps_fence_program_order();
    steal.rest = ps_load_relaxed(&span->x_notice_next); /* relaxed: acquired by take */
    /* Only spans of this heap, so that it alone may have to be offered. */
    if (ps_span_steal(span, ps_heap_key_of(steal.from, span->class_index))) {
        steal.now = NULL;
        ps_fence_program_order();
        ps_heap_release_span(steal.from, span);
        return true;
    }
    ps_store_relaxed(&span->x_notice_next, steal.kept); /* relaxed: released by the push */
    ps_fence_program_order();
    steal.kept = span;
    ps_fence_program_order();
    steal.now = NULL;
    return false;
}

/* Gives up what a thread was processing that is not in the child of a fork, where a locked section
 * of the calling thread's was interrupted, so that nothing was salvaged: the spans stay in use.
 * Also in a fork handler that allocates, if it interrupts this thread's own steal. */
static PS_COLD void forget(void) {
    steal.rest = NULL;
    steal.now = NULL;
    steal.kept = NULL;
}

/* Processes `count` notices of the present list, or, if there is none, of `heap`. Steal lock held,
 * released here. Returns the number of stolen spans. */
static size_t steal_some(struct ps_heap *heap, size_t count) {
    size_t stolen = 0;
    if (PS_UNLIKELY(steal.is_busy)) {
        forget();
    }
    steal.is_busy = true;
    ps_fence_program_order(); /* for the child of a fork, this and the one at the end */
    if (steal.rest == NULL) {
        take_from(heap);
    }
    struct ps_heap *from = steal.from;
    struct ps_span *last = NULL; /* of those that are kept */
    for (; steal.rest != NULL && count > 0; count--) {
        struct ps_span *span = steal.rest;
        if (steal_next()) {
            stolen++;
        } else if (last == NULL) {
            last = span;
        }
    }
    struct ps_span *first = steal.kept;
    steal.kept = NULL; /* before they are sent: not twice in a child */
    if (first != NULL) {
        ps_heap_push_notices(from, first, last);
    }
    if (steal.rest != NULL) {
        /* relaxed, both: hints. */
        ps_store_relaxed(&x_steal_candidate, from);
        ps_store_relaxed(&x_next_walk_ms, (uint64_t)0);
    }
    ps_fence_program_order();
    steal.is_busy = false;
    ps_lock_release(&steal_lock);
    ps_heap_forward_notices(from);
    if (stolen != 0) {
        /* The heap's thread may be ending. Under the registry lock either that thread finds the
         * spans taken, or we find it ended; a plain read of x_state, or of its count of spans,
         * could miss that. */
        ps_heap_offer(from);
    }
    return stolen;
}

bool ps_steal_from_candidate(const struct ps_heap *heap) {
    struct ps_heap *candidate = ps_load_relaxed(&x_steal_candidate); /* relaxed: a hint */
    if (PS_LIKELY(candidate == NULL) || candidate == heap || !ps_lock_try(&steal_lock)) {
        return false;
    }
    ps_store_relaxed(&x_steal_candidate, (struct ps_heap *)NULL); /* relaxed: as above */
    if (steal.rest == NULL && !has_spans_to_steal(candidate)) {
        ps_lock_release(&steal_lock);
        return false;
    }
    return steal_some(candidate, SPANS_PER_REFILL) != 0;
}

/* relaxed, all: a guess whether an owner is idle; the steal itself is exact. */
static bool is_worth_it(const struct ps_heap *heap, uint64_t now_ms) {
    bool has_any =
        ps_load_relaxed(&heap->x_back) != 0 || ps_load_relaxed(&heap->x_notices_rest) != NULL;
    return has_any && has_spans_to_steal(heap) &&
           ps_load_relaxed(&heap->x_active_ms) + idle_ms() < now_ms;
}

/* Advances the cursor behind the next idle owner with notices. NULL: none within the bound. */
static struct ps_heap *find(struct ps_heap *newest, uint64_t now_ms) {
    struct ps_heap *found = NULL;
    struct ps_heap *heap = ps_load_relaxed(&x_cursor); /* relaxed: written under the lock */
    heap = heap != NULL ? heap : newest;
    for (int looked = 0; found == NULL && heap != NULL && looked < HEAPS_PER_TICK; looked++) {
        found = is_worth_it(heap, now_ms) ? heap : NULL;
        heap = heap->next_heap;
    }
    ps_store_relaxed(&x_cursor, heap); /* relaxed: a hint to threads without the lock */
    if (heap == NULL) {
        ps_store_relaxed(&x_next_walk_ms, now_ms + idle_ms()); /* relaxed: as in ps_steal_tick */
    }
    return found;
}

void ps_steal_tick(uint64_t now_ms) {
    /* relaxed, both: a second thread that walks too does no harm. */
    bool is_begun = ps_load_relaxed(&x_cursor) != NULL;
    if (!is_begun && now_ms < ps_load_relaxed(&x_next_walk_ms)) {
        return;
    }
    struct ps_heap *newest = is_begun ? NULL : ps_heap_newest();
    if (!ps_lock_try(&steal_lock)) {
        return;
    }
    struct ps_heap *heap = steal.rest != NULL ? steal.from : find(newest, now_ms);
    if (heap == NULL) {
        ps_lock_release(&steal_lock);
        return;
    }
    (void)steal_some(heap, SPANS_PER_TICK);
}

bool ps_steal_is_behind(void) { return ps_load_relaxed(&x_cursor) != NULL; /* relaxed: a hint */ }

static void steal_all_of(struct ps_heap *heap) {
    bool is_last;
    do { /* ends: the pending list comes first, then the owner's rest, then its list */
        ps_lock_acquire(&steal_lock);
        /* relaxed: a rest that the owner leaves from now on may stay. */
        is_last = steal.rest == NULL && ps_load_relaxed(&heap->x_notices_rest) == NULL;
        (void)steal_some(heap, SIZE_MAX);
    } while (!is_last);
}

void ps_steal_all(void) {
    for (struct ps_heap *heap = ps_heap_newest(); heap != NULL; heap = heap->next_heap) {
        if (has_spans_to_steal(heap)) {
            steal_all_of(heap);
        }
    }
}

static bool has_notice(const struct ps_span *list, const struct ps_span *wanted) {
    while (list != NULL && list != wanted) {
        list = ps_load_relaxed(&list->x_notice_next); /* relaxed: the only thread */
    }
    return list != NULL;
}

/* True if steal.rest has been taken off its heap's list. Otherwise it was only read, and the owner
 * may have taken the list and processed its spans since, which are then no longer QUEUED. */
static bool is_rest_taken(void) {
    const struct ps_span *rest = steal.rest;
    /* relaxed, both: the only thread. */
    return rest != NULL && !has_notice(ps_load_relaxed(&steal.from->x_notices), rest) &&
           !has_notice(ps_load_relaxed(&steal.from->x_notices_rest), rest) &&
           ps_span_is_queued(rest);
}

/* Completes an operation on one span: it is stolen, or its notice is forwarded. */
static void finish_steal(struct ps_span *span) {
    if (ps_span_finish_steal(span)) {
        /* relaxed: the only thread. */
        ps_heap_release_span(ps_heap_of_key(ps_load_relaxed(&span->x_owner)), span);
    } else {
        ps_notify_owner(span);
    }
}

void ps_steal_fork_child(void) { ps_lock_fork_child(&steal_lock); }

void ps_steal_fork_salvage(void) {
    struct ps_span *rest = steal.rest;
    struct ps_span *now = steal.now;
    struct ps_span *kept = steal.kept;
    bool is_taken = is_rest_taken();
    forget();
    steal.is_busy = false;
    if (now != NULL && now != rest && now != kept) {
        finish_steal(now);
    }
    ps_heap_notify_all(is_taken ? rest : NULL);
    ps_heap_notify_all(kept);
}
