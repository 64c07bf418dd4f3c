/* SPDX-License-Identifier: MIT */
/*
 * See steal.h. Lock: steal_lock, held by the one thread that steals; takes the page lock. A list
 * that is being looked over, and the heaps that are left to look at, wait in `steal` and `x_cursor`
 * between two calls.
 */
#include "pools/engine/heap/steal.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/small/span_remote.h"

#define SPANS_PER_TICK 256  /* of a list of notices; each costs the page lock if it is stolen */
#define SPANS_PER_REFILL 32 /* less than the page faults of the span that is wanted */
#define HEAPS_PER_TICK 64
#define STEAL_MIN_SPANS 8 /* wholly free: worth a search before fresh memory is taken */
#define LOOKS_PER_DELAY 4

static struct ps_lock steal_lock = PS_LOCK_INIT(PS_RANK_STEAL);
static uint32_t idle_ms;
static uint64_t x_next_look_ms;
static struct ps_heap *x_cursor; /* the look under way has come to here; NULL: there is none */
static struct ps_heap *x_steal_candidate; /* a heap with much that is back; heaps are never freed */

/* What the thief has in hand, for the child of a fork. Idle lock. */
static struct {
    struct ps_heap *from;
    struct ps_span
        *rest; /* wakes taken from there, to be looked at; not taken yet: still its list */
    struct ps_span *now;  /* being looked at; briefly the first of one of the others, too */
    struct ps_span *kept; /* notices to be sent again */
} steal;

void ps_steal_start(uint32_t delay_ms) { idle_ms = delay_ms / LOOKS_PER_DELAY; }

/* relaxed, all: hints. But none is lost: a list is taken after x_back was cleared, and a notice
 * that is not on it was sent, and noted, after that. */
void ps_steal_note_back(struct ps_heap *owner) {
    if (ps_add_relaxed(&owner->x_back, 1u) + 1 >= STEAL_MIN_SPANS) {
        ps_store_relaxed(&x_steal_candidate, owner);
    }
}

/* Notices of a heap whose thread has ended are sent on by others. relaxed: a notice that is taken
 * and kept is sent on, too. */
static bool has_spans_to_steal(const struct ps_heap *heap) {
    uint32_t state = ps_load_relaxed(&heap->x_state);
    return state == PS_HEAP_LIVE || state == PS_HEAP_SHARED;
}

/* Takes a list of notices into steal.rest. The child of a fork must not lose the list between the
 * two: it stands there before it is taken. False: there was none. */
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
    if (!take(&heap->x_notices_rest)) {      /* x_back is for the list */
        ps_store_relaxed(&heap->x_back, 0u); /* relaxed: see ps_steal_note_back */
        (void)take(&heap->x_notices);
    }
}

/* Looks at the first span that is left. Whether it was stolen. */
static bool steal_next(void) {
    struct ps_span *span = steal.rest;
    steal.now = span;
    ps_fence_program_order();
    steal.rest = ps_load_relaxed(&span->x_notice_next); /* relaxed: acquired by take */
    /* Of the heap itself only, so that it alone may have to be offered. */
    if (ps_heap_owns(steal.from, span) && ps_span_steal(span)) {
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

/* Looks at so many notices of the list at hand, or, when there is none, of `heap`. Idle lock held,
 * releases it. Returns how many spans were stolen. */
static size_t steal_some(struct ps_heap *heap, size_t count) {
    size_t stolen = 0;
    if (steal.rest == NULL) {
        take_from(heap);
    }
    struct ps_heap *from = steal.from;
    struct ps_span *last = NULL; /* of those that stay */
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
        ps_store_relaxed(&x_next_look_ms, (uint64_t)0);
    }
    ps_lock_release(&steal_lock);
    ps_heap_forward_notices(from);
    if (stolen != 0) {
        /* Its thread may end at this moment. Under the lock, either it finds the spans gone or we
         * find it ended; a look at x_state instead could miss, and so could its count of spans. */
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

/* relaxed, all: a guess about an owner that does nothing; the steal itself is exact. */
static bool is_worth_it(const struct ps_heap *heap, uint64_t now_ms) {
    bool has_any =
        ps_load_relaxed(&heap->x_back) != 0 || ps_load_relaxed(&heap->x_notices_rest) != NULL;
    return has_any && has_spans_to_steal(heap) &&
           ps_load_relaxed(&heap->x_active_ms) + idle_ms < now_ms;
}

/* Moves the cursor behind the next idle owner that may have something. NULL: not among so many. */
static struct ps_heap *find(struct ps_heap *newest, uint64_t now_ms) {
    struct ps_heap *found = NULL;
    struct ps_heap *heap = ps_load_relaxed(&x_cursor); /* relaxed: written under the lock */
    heap = heap != NULL ? heap : newest;
    for (int looked = 0; found == NULL && heap != NULL && looked < HEAPS_PER_TICK; looked++) {
        found = is_worth_it(heap, now_ms) ? heap : NULL;
        heap = heap->next_heap;
    }
    ps_store_relaxed(&x_cursor, heap); /* relaxed: a hint to those without the lock */
    if (heap == NULL) {
        ps_store_relaxed(&x_next_look_ms, now_ms + idle_ms); /* relaxed: as in ps_steal_tick */
    }
    return found;
}

void ps_steal_tick(uint64_t now_ms) {
    /* relaxed, both: a second thread that looks too does no harm. */
    bool is_begun = ps_load_relaxed(&x_cursor) != NULL;
    if (!is_begun && now_ms < ps_load_relaxed(&x_next_look_ms)) {
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

static void steal_all_of(struct ps_heap *heap) {
    bool is_last;
    do { /* ends: after what was begun before, and what the owner has left over, comes the list */
        ps_lock_acquire(&steal_lock);
        /* relaxed: what the owner leaves now it may keep. */
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
        list = ps_load_relaxed(&list->x_notice_next); /* relaxed: one thread */
    }
    return list != NULL;
}

/* Whether steal.rest has been taken off its heap's list. It may also have been read only, and the
 * owner have taken the list and looked at its spans since: then they are no longer QUEUED. */
static bool is_rest_taken(void) {
    const struct ps_span *rest = steal.rest;
    /* relaxed, both: one thread. */
    return rest != NULL && !has_notice(ps_load_relaxed(&steal.from->x_notices), rest) &&
           !has_notice(ps_load_relaxed(&steal.from->x_notices_rest), rest) &&
           ps_span_is_queued(rest);
}

/* Ends what was begun with one span: it is stolen, or its notice goes on. */
static void finish_steal(struct ps_span *span) {
    if (ps_span_finish_steal(span)) {
        /* relaxed: one thread. */
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
    steal.rest = NULL;
    steal.now = NULL;
    steal.kept = NULL;
    if (now != NULL && now != rest && now != kept) {
        finish_steal(now);
    }
    ps_heap_notify_all(is_taken ? rest : NULL);
    ps_heap_notify_all(kept);
}
