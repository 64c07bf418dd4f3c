/* SPDX-License-Identifier: MIT */
/*
 * See take.h.
 */
#include "pools/engine/heap/take.h"

#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#define LOOK_MS 4     /* between two walks, of all threads together */
#define LOOK_HEAPS 32 /* heaps examined per walk */
#define WORK_HEAPS 8  /* heaps taken, or continued, per walk */
#define ANSWER_MS 5   /* more than one period of a coarse clock */

/* A heap is asked for when its thread has not read the clock for so long. */
#define IDLE_MS 4

/* Spans released per walk. Each costs about 0.15 us. */
#define CLEAR_SPANS 256

/* Continues no streak: not a block's address. */
#define STOPPED ((char *)1)

static bool is_on; /* constant after the start */
static uint64_t x_next_look_ms;
static struct ps_heap *cursor;     /* next heap to examine; registry lock */
static struct ps_heap *idle_since; /* first heap of a sequence without work; NULL: none; likewise */

struct look {
    uint64_t now_ms;
    uint32_t spans; /* remaining spans to release */
    uint32_t count;
    struct ps_heap *work[WORK_HEAPS]; /* HELD by this thread */
};

void ps_take_start(void) { is_on = ps_mode.hook.has_fast_alloc && ps_mode.hook.has_fast_free; }

void ps_take_attach(struct ps_heap *heap) {
    if (is_on) {
        ps_store_relaxed(&heap->x_active_ms, ps_os_now_ms()); /* relaxed: see maintenance.c */
        /* release: pairs with look_at_heap; the thread's words are complete. */
        ps_store_release(&heap->x_thread, &ps_thread);
    }
}

struct ps_late_streak ps_take_late_streak(void) {
    struct ps_late_streak late = {
        .from = ps_thread.streak_from,
        .next = ps_load_relaxed(&ps_thread.streak_next), /* relaxed: this thread's own */
        .step = ps_thread.streak_step};
    late.from = late.next == STOPPED ? NULL : late.from;
    ps_thread.streak_from = NULL;
    ps_thread.streak_step = 0;
    ps_store_relaxed(&ps_thread.streak_next, (char *)NULL);
    return late;
}

void ps_take_free_late(const struct ps_late_streak *late) {
    /* The slow way: after the first block, whose free had begun before the heap was taken, an
     * address may have become another block's. Ends: each step was a call of free. */
    for (char *block = late->from; block != NULL && block != late->next; block += late->step) {
        struct ps_span *span = ps_span_at(block);
        ps_mode.entry.free_block(span, block, ps_load_relaxed(&span->x_owner)); /* as in free */
    }
}

void ps_take_detach(struct ps_heap *heap) {
    ps_store_relaxed(&heap->x_thread, (struct ps_thread_words *)NULL); /* relaxed: a lock follows */
}

/* ---- registry lock held ---- */

/* Step 1 of the protocol. */
static void ask(struct ps_thread_words *thread, struct ps_heap *heap, uint64_t now_ms) {
    uint32_t was_free = PS_THREAD_FREE;
    /* relaxed: NULL if the loader has reset the words (thread.c). acquire: pairs with
     * ps_thread_leave; the thread's accesses to its heap are visible. */
    if (ps_load_relaxed(&thread->own) != heap ||
        !ps_cas_strong_acquire(&thread->x_busy, &was_free, (uint32_t)PS_THREAD_ASKED)) {
        return;
    }
    heap->asked_ms = now_ms;
    heap->is_asked = true;
    thread->last = heap;
    ps_fence_program_order(); /* for the child of a fork: what it undoes, before that is done */
    /* relaxed, all: the time that passes makes them visible. `heap` stays: a call that has seen
     * the limit is about to read it. */
    ps_store_relaxed(&thread->own, (struct ps_heap *)NULL);
    ps_store_relaxed(&thread->fast_limit, (size_t)0);
    ps_store_relaxed(&thread->key, PS_KEY_NO_SPAN);
}

/* Stops the heap's open streak. Its thread may still free the next blocks of it: see
 * ps_take_late_streak. */
static void stop_streak(struct ps_thread_words *thread, struct ps_heap *heap) {
    if (heap->streak_span != NULL) {
        /* acquire: pairs with ps_heap_free; the blocks of the streak belong to this thread. */
        heap->streak_next = ps_exchange_acquire(&thread->streak_next, STOPPED);
        heap->streak_step = thread->streak_step;
        thread->streak_from = heap->streak_next;
    }
}

/* Step 2. Returns true when the heap is HELD by this thread. */
static bool take_heap(struct ps_thread_words *thread, struct ps_heap *heap, uint64_t now_ms) {
    if (now_ms - heap->asked_ms < ANSWER_MS) {
        return false;
    }
    if (ps_load_relaxed(&thread->x_busy) != PS_THREAD_ASKED) { /* relaxed: time has passed */
        ps_registry_restore(thread, heap);
        return false;
    }
    heap->holder = ps_lock_self();
    ps_fence_program_order(); /* for the child of a fork, this and the next */
    ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_HELD); /* relaxed: under the lock */
    ps_fence_program_order();
    stop_streak(thread, heap);
    heap->is_asked = false;
    ps_store_relaxed(&heap->x_thread_pointer, (uintptr_t)0); /* relaxed: see thread.c */
    ps_take_detach(heap);
    return true;
}

/* Returns whether the heap is asked for, or was taken by this thread. */
static bool look_at_heap(struct look *look, struct ps_heap *heap) {
    uint32_t state = ps_load_relaxed(&heap->x_state); /* relaxed: under the lock */
    if (state == PS_HEAP_IDLE) {
        heap->holder = ps_lock_self();
        ps_fence_program_order();                                 /* for the child of a fork */
        ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_HELD); /* relaxed: as above */
        look->work[look->count++] = heap;
        return true;
    }
    struct ps_thread_words *thread = ps_load_acquire(&heap->x_thread); /* acquire: ps_take_attach */
    /* relaxed: a hint. */
    bool is_idle = ps_load_relaxed(&heap->x_active_ms) + IDLE_MS <= look->now_ms;
    if (state != PS_HEAP_LIVE || thread == NULL || thread == &ps_thread || !is_idle ||
        !ps_os_is_mapped(thread)) { /* a thread may end without its destructors */
        return false;
    }
    if (!heap->is_asked) {
        ask(thread, heap, look->now_ms);
    } else if (take_heap(thread, heap, look->now_ms)) {
        look->work[look->count++] = heap;
        return true;
    }
    return heap->is_asked;
}

/* Examines the next heaps. Returns false when all have been examined since the last one that needed
 * work. */
static bool look_at_some(struct look *look) {
    bool is_round = false;
    cursor = cursor != NULL ? cursor : ps_registry_after(NULL);
    const struct ps_heap *first = cursor;
    for (int i = 0; i < LOOK_HEAPS && look->count < WORK_HEAPS && (i == 0 || cursor != first);
         i++) {
        if (look_at_heap(look, cursor)) {
            idle_since = NULL;
        } else if (idle_since == NULL) {
            idle_since = cursor;
        }
        cursor = ps_registry_after(cursor);
        if (cursor == idle_since) {
            is_round = true;
            break;
        }
    }
    return !is_round;
}

/* ---- without the registry lock ---- */

static void clear_out(struct ps_heap *heap, uint32_t *spans) {
    if (ps_heap_clear_out(heap, heap->streak_next, heap->streak_step, spans)) {
        ps_heap_park(heap);
    } else {
        ps_registry_set_idle(heap);
    }
}

bool ps_take_look(uint64_t now_ms) {
    /* relaxed, all: hints; a second thread that walks too does no harm. */
    if (!is_on || ps_load_relaxed(&ps_room_x_is_shared) == 0 ||
        now_ms < ps_load_relaxed(&x_next_look_ms)) {
        return false;
    }
    ps_store_relaxed(&x_next_look_ms, now_ms + LOOK_MS);
    struct look look = {.now_ms = now_ms, .spans = CLEAR_SPANS};
    if (!ps_registry_try()) {
        return false;
    }
    bool has_more = look_at_some(&look);
    ps_registry_release();
    for (uint32_t i = 0; i < look.count; i++) {
        clear_out(look.work[i], &look.spans);
    }
    return has_more;
}
