/* SPDX-License-Identifier: MIT */
/*
 * See registry.h. Lock: registry_lock, protects the lists of heaps, and the words by which a thread
 * and a heap that may be taken name each other (thread.h).
 */
#include "pools/engine/heap/registry.h"

#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/heap/thread_record.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_remote.h"

/* No undo log: each change of the lists is one store, and in the child of a fork a heap or span
 * that another thread was handling belongs to a DEAD heap, wherever that thread was interrupted. */
static struct ps_lock registry_lock = PS_LOCK_INIT(PS_RANK_REGISTRY);
struct ps_heap *ps_registry_x_heaps;
static struct ps_heap *parked_heaps;

/* Creates a heap in fresh memory; NULL when memory is exhausted. */
static struct ps_heap *make_fresh(void) {
    void *state;
    struct ps_heap *heap = ps_mode.hook.make_state(&state) ? ps_metadata_take(sizeof *heap) : NULL;
    if (heap == NULL) {
        return NULL;
    }
    PS_CHECK(((uintptr_t)heap & PS_KEY_MASK) == 0);
    heap->mode_state = state;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        heap->bins[i].block_bytes = ps_size_classes[i].block_bytes;
    }
    for (uint32_t i = 0; i < PS_BIN_LIMIT; i++) {
        heap->current[i] = &ps_span_none;
    }
    return heap;
}

/* For a thread that has not adopted it yet: see is_left_behind. */
static void make_live(struct ps_heap *heap) {
    heap->holder = ps_lock_self();
    ps_fence_program_order(); /* for the child of a fork */
    /* relaxed: under the lock, or fresh. */
    ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_LIVE);
}

/* Takes a parked heap without spans. */
static struct ps_heap *take_parked_locked(void) {
    struct ps_heap *heap = parked_heaps;
    if (heap != NULL) {
        parked_heaps = heap->next_parked;
        heap->is_offered = false;
        make_live(heap);
    }
    return heap;
}

void ps_registry_set_words(struct ps_thread_words *thread, const struct ps_heap *heap) {
    bool has_fast_free = heap == NULL || ps_mode.hook.has_fast_free;
    size_t limit = heap != NULL && ps_mode.hook.has_fast_alloc ? PS_FEW_BYTES + 1 : 0;
    /* relaxed, both: the thread's own; `ask` of thread.c writes them only for an attached heap. */
    ps_store_relaxed(&thread->fast_limit, limit);
    ps_store_relaxed(&thread->key, has_fast_free ? ps_heap_key(heap) : PS_KEY_CHECKED);
}

void ps_registry_restore(struct ps_thread_words *thread, struct ps_heap *heap) {
    ps_registry_set_words(thread, heap);
    /* relaxed: the thread's own words, of a heap that it has never left. */
    ps_store_relaxed(&thread->own, heap); /* last: read in the child of a fork */
    heap->is_asked = false;
}

/* Restores the heap that was asked for to the calling thread. NULL: none. */
static struct ps_heap *restore_asked_locked(void) {
    struct ps_heap *heap = ps_thread.last;
    /* relaxed, both: under the lock. Not LIVE: in the child of a fork, where the thread that took
     * it does not exist. */
    if (heap == NULL || !heap->is_asked || ps_load_relaxed(&heap->x_thread) != &ps_thread ||
        ps_load_relaxed(&heap->x_state) != PS_HEAP_LIVE) {
        return NULL;
    }
    ps_registry_restore(&ps_thread, heap);
    /* Otherwise the next walk would ask again. relaxed: see maintenance.c. */
    ps_store_relaxed(&heap->x_active_ms, ps_os_now_ms());
    return heap;
}

/* Returns the calling thread's last heap, now LIVE, if it was taken and has not become another's.
 * NULL: none. */
static struct ps_heap *take_last_locked(void) {
    struct ps_heap *heap = ps_thread.last;
    ps_thread.last = NULL;
    if (heap == NULL) {
        return NULL;
    }
    uint32_t state = ps_load_relaxed(&heap->x_state); /* relaxed, both: under the lock */
    if (state != PS_HEAP_IDLE && (state != PS_HEAP_PARKED || heap->is_offered)) {
        return NULL;
    }
    make_live(heap);
    return heap;
}

struct ps_heap *ps_heap_recover(void) {
    ps_lock_acquire(&registry_lock);
    struct ps_heap *heap = ps_thread_own();
    if (heap == NULL) {
        heap = restore_asked_locked();
    }
    ps_lock_release(&registry_lock);
    return heap;
}

struct ps_heap *ps_heap_make(void) {
    ps_lock_acquire(&registry_lock);
    struct ps_heap *heap = take_last_locked();
    bool is_second = ps_registry_x_heaps != NULL;
    if (heap == NULL) {
        heap = take_parked_locked();
    }
    ps_lock_release(&registry_lock);
    if (heap != NULL) {
        heap->tick_countdown = 0;
        return heap;
    }
    if (is_second) {
        ps_lock_watch_forks();                      /* from here on a fork may lose threads */
        ps_store_relaxed(&ps_room_x_is_shared, 1u); /* relaxed: a hint */
    }
    heap = make_fresh();
    if (heap == NULL) {
        return NULL;
    }
    make_live(heap);
    ps_lock_acquire(&registry_lock);
    heap->next_heap = ps_registry_x_heaps;
    ps_fence_program_order(); /* for the child of a fork: the list is complete */
    ps_registry_x_heaps = heap;
    ps_lock_release(&registry_lock);
    return heap;
}

/*
 * Offers the heap of an ended thread to the next one, once it has no spans. Earlier, its spans
 * would become those of a thread that may not run for a while, instead of orphans that any thread
 * which frees their blocks can adopt.
 */
static void offer_if_empty_locked(struct ps_heap *heap) {
    uint32_t spans = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        spans += ps_load_relaxed(&heap->x_spans[i]); /* relaxed: taking the last one offers */
    }
    /* relaxed: under the lock. */
    if (spans == 0 && !heap->is_offered && ps_load_relaxed(&heap->x_state) == PS_HEAP_PARKED) {
        heap->is_offered = true;
        heap->next_parked = parked_heaps;
        ps_fence_program_order(); /* for the child of a fork: the list is complete */
        parked_heaps = heap;
    }
}

void ps_registry_park(struct ps_heap *heap) {
    ps_lock_acquire(&registry_lock);
    /* seq_cst: see ps_heap_forward_notices. */
    ps_store_seq_cst(&heap->x_state, (uint32_t)PS_HEAP_PARKED);
    offer_if_empty_locked(heap);
    ps_lock_release(&registry_lock);
}

void ps_registry_set_idle(struct ps_heap *heap) {
    ps_lock_acquire(&registry_lock);
    ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_IDLE); /* relaxed: under the lock */
    ps_lock_release(&registry_lock);
}

void ps_registry_hold(struct ps_heap *heap) {
    heap->holder = ps_lock_self();
    ps_fence_program_order(); /* for the child of a fork, this and the next */
    ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_HELD); /* relaxed: under the lock */
    ps_fence_program_order();
    ps_store_relaxed(&heap->x_thread_pointer, (uintptr_t)0); /* relaxed: see thread.c */
}

void ps_registry_acquire(void) { ps_lock_acquire(&registry_lock); }

bool ps_registry_try(void) { return ps_lock_try(&registry_lock); }

void ps_registry_release(void) { ps_lock_release(&registry_lock); }

struct ps_heap *ps_registry_after(const struct ps_heap *heap) {
    return heap != NULL && heap->next_heap != NULL ? heap->next_heap : ps_registry_x_heaps;
}

void ps_heap_offer(struct ps_heap *heap) {
    ps_lock_acquire(&registry_lock);
    offer_if_empty_locked(heap);
    ps_lock_release(&registry_lock);
}

bool ps_heap_leave_parked(struct ps_span *span, uintptr_t key, uintptr_t new_key) {
    struct ps_heap *heap = ps_heap_of_key(key);
    ps_lock_acquire(&registry_lock); /* replaces the owner: no thread can take the heap */
    /* relaxed, both: written under the lock; x_owner by the span's owner. */
    bool is_parked =
        ps_load_relaxed(&span->x_owner) == key && ps_load_relaxed(&heap->x_state) == PS_HEAP_PARKED;
    if (is_parked) {
        ps_span_clear_queued(span);
        if (new_key == PS_KEY_ORPHAN) {
            ps_room_orphan(heap, span);
        } else {
            ps_span_attach(span);
            ps_add_relaxed(&heap->x_spans[span->class_index], (uint32_t)-1); /* relaxed: a count */
            ps_span_set_owner(span, new_key);
        }
        offer_if_empty_locked(heap);
    }
    ps_lock_release(&registry_lock);
    return is_parked;
}

void ps_heap_walk(void (*visit)(struct ps_heap *heap, void *context), void *context) {
    ps_lock_acquire(&registry_lock);
    for (struct ps_heap *heap = ps_registry_x_heaps; heap != NULL; heap = heap->next_heap) {
        visit(heap, context);
    }
    ps_lock_release(&registry_lock);
}

struct ps_heap *ps_registry_first(void) { return ps_registry_x_heaps; }

struct ps_heap *ps_heap_newest(void) {
    ps_lock_acquire(&registry_lock);
    struct ps_heap *heap = ps_registry_x_heaps;
    ps_lock_release(&registry_lock);
    return heap;
}

/* Completes what another thread was doing to the calling thread's heap. */
static void restore_in_child(void) {
    struct ps_heap *heap = ps_thread.last;
    /* relaxed: the only thread. */
    if (ps_load_relaxed(&ps_thread.own) == NULL && heap != NULL &&
        ps_load_relaxed(&heap->x_thread) == &ps_thread &&
        ps_load_relaxed(&heap->x_state) == PS_HEAP_LIVE) {
        ps_registry_restore(&ps_thread, heap);
    }
}

/* True if a thread that does not exist here was using the heap. The calling thread may have been
 * interrupted by a signal handler, in the middle of acquiring or clearing one. */
static bool is_left_behind(const struct ps_heap *heap, const struct ps_heap *late_heap) {
    bool is_mine = heap->holder == ps_lock_self();
    /* relaxed, both: the only thread. */
    switch (ps_load_relaxed(&heap->x_state)) {
    case PS_HEAP_LIVE:
        return heap != ps_thread_own() && !(is_mine && ps_load_relaxed(&heap->x_thread) == NULL);
    case PS_HEAP_SHARED:
        return heap != late_heap;
    case PS_HEAP_HELD:
        return !is_mine;
    default:
        return false;
    }
}

void ps_registry_fork_child(const struct ps_heap *late_heap) {
    ps_lock_fork_child(&registry_lock);
    restore_in_child();
    ps_thread_record_fork_child();
    for (struct ps_heap *heap = ps_registry_x_heaps; heap != NULL; heap = heap->next_heap) {
        if (is_left_behind(heap, late_heap)) {
            ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_DEAD); /* relaxed: the only thread */
            ps_thread_record_forget_heap(heap);
        }
    }
}
