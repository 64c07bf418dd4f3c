/* SPDX-License-Identifier: MIT */
/*
 * See thread.h. Lock: the registry's.
 */
#include "pools/engine/heap/thread.h"
#include "pools/engine/heap/bin_return.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/heap/thread_record.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/size_class.h"

#include <pthread.h>

#define WALK_MS 4     /* between two walks, of all threads together, when the last found no work */
#define WORK_US 500   /* when it did */
#define WALK_HEAPS 32 /* heaps examined per walk */
#define WORK_HEAPS 8  /* heaps taken, or continued, per walk */

/* How long a thread must have been idle before its heap is asked for: see idle_ms. */
#define IDLE_MS 4
#define IDLE_GRANULE_MS 128

/* Spans released per walk. Each costs about 0.15 us. */
#define CLEAR_SPANS 256

/* Continues no streak: not a block's address. */
#define STOPPED ((char *)1)

PS_HIDDEN PS_THREAD_LOCAL_LINE(struct ps_thread_words, ps_thread) = PS_THREAD_LOCAL_INIT({
    .key = PS_KEY_AT_ONCE, /* ps_heap_key(NULL) */
});

static struct ps_heap *x_first_heap; /* of the thread that started the engine */
static pthread_key_t exit_key;
static uint32_t x_has_key;
static bool is_on; /* heaps are taken in this process; constant after the start */

/* ---- the words of a thread whose heap may be taken ---- */

/* Blocks that the calling thread, which has no heap, has freed by a stopped streak; reading them
 * resets its words. They must be freed again when the thread has a heap, or cannot have one. */
struct late_streak {
    char *from; /* NULL: none */
    char *next;
    ptrdiff_t step;
};

void ps_take_start(void) { is_on = !ps_mode.hook.keeps_heaps; }

/* Lets the heap be taken while its thread makes no calls. */
static void attach(struct ps_heap *heap) {
    if (is_on && ps_thread.is_announced) {
        ps_store_relaxed(&heap->x_active_ms, ps_os_now_ms()); /* relaxed: see maintenance.c */
        ps_registry_acquire();
        ps_thread_record_attach(heap);
        ps_registry_release();
    }
}

static struct late_streak take_late_streak(void) {
    struct late_streak late = {
        .from = ps_thread.streak_from,
        .next = ps_load_relaxed(&ps_thread.streak_next), /* relaxed: this thread's own */
        .step = ps_thread.streak_step};
    late.from = late.next == STOPPED ? NULL : late.from;
    ps_thread.streak_from = NULL;
    ps_thread.streak_step = 0;
    ps_store_relaxed(&ps_thread.streak_next, (char *)NULL);
    return late;
}

static void free_late(const struct late_streak *late) {
    /* The slow way: after the first block, whose free had begun before the heap was taken, an
     * address may have become another block's. Ends: each step was a call of free. */
    for (char *block = late->from; block != NULL && block != late->next; block += late->step) {
        struct ps_span *span = ps_span_at(block);
        ps_thread_enter(); /* the one before may have left */
        ps_mode.entry.free_block(span, block, ps_load_relaxed(&span->x_owner)); /* as in free */
    }
}

static void detach(struct ps_heap *heap) {
    ps_registry_acquire();
    ps_thread_record_forget_heap(heap);
    ps_registry_release();
}

/* ---- begin and end ---- */

/* Clears a HELD heap. */
static void clear_out(struct ps_heap *heap, uint32_t *spans) {
    if (ps_heap_clear_out(heap, heap->streak_next, heap->streak_step, spans)) {
        ps_heap_park(heap);
    } else {
        ps_registry_set_idle(heap);
    }
}

static void thread_ended(void *unused) {
    (void)unused;
    ps_front_thread_ended();
    ps_heap_give_up();
    if (ps_thread.record != NULL) {
        ps_thread_record_end(ps_thread.record);
    }
    if (ps_thread.has_begun) {
        ps_thread.has_begun = 0;
        ps_background_thread_ended();
    }
}

/*
 * Registers the end of the calling thread with libc. That may allocate, the more so where a program
 * has interposed the function: no call is under way, and a heap of the thread is complete.
 */
bool ps_thread_will_end(void) {
    /* acquire: pairs with ps_thread_start_first; makes the key visible. */
    return ps_load_acquire(&x_has_key) != 0 && pthread_setspecific(exit_key, &exit_key) == 0;
}

__attribute__((weak)) void ps_thread_begun_by_itself(void) {}

/* The first thread, or one that was not announced and allocates for the first time, counts from
 * here on. Not before a free: libc frees memory of a thread after its destructors. No call is under
 * way.
 */
static void begin_by_itself(void) {
    if (ps_thread_will_end()) {
        ps_thread.has_begun = 1;
        ps_background_thread_begun();
        if (!ps_thread.is_announced) { /* not the first */
            ps_thread_begun_by_itself();
        }
    }
}

/* Clears the heap of a thread that ended without its destructors; NULL: it had none. */
static void clear_lost(struct ps_heap *heap) {
    if (heap != NULL) {
        uint32_t spans = CLEAR_SPANS;
        ps_thread_enter();
        clear_out(heap, &spans);
        ps_thread_leave();
    }
    ps_background_thread_ended();
}

void ps_thread_begin(struct ps_thread_record *record) {
    bool is_lost;
    struct ps_heap *lost = ps_thread_record_begin(record, &is_lost);
    if (is_lost) {
        clear_lost(lost);
    }
    bool is_counted = ps_thread.has_begun != 0; /* a signal handler has allocated */
    ps_thread.has_begun = 1;                    /* before the next, which may allocate */
    if (!is_counted && !ps_thread_will_end()) {
        ps_thread.has_begun = 0;
        ps_thread_record_end(record);
        ps_background_thread_seen();
        return;
    }
    if (!is_counted) {
        ps_background_thread_begun();
    }
    ps_background_thread_seen();
    ps_thread_enter();
    ps_thread.is_announced = 1;
    struct ps_heap *heap = ps_heap_recover();
    if (heap != NULL) {
        attach(heap);
    }
    ps_thread_leave();
}

void ps_thread_joined(struct ps_thread_record *record, bool has_ended) {
    bool is_lost;
    struct ps_heap *heap = ps_thread_record_joined(record, has_ended, &is_lost);
    if (is_lost) {
        clear_lost(heap);
    }
}

void ps_thread_start_first(void) {
    ps_thread.is_announced = 1;                         /* its words are never released */
    ps_store_relaxed(&x_first_heap, ps_heap_acquire()); /* relaxed: see heap_before_reset */
    ps_thread_leave();                                  /* the next may allocate */
    /* Out of keys: no thread reuses the heaps of ended ones. */
    uint32_t has_key = pthread_key_create(&exit_key, thread_ended) == 0;
    ps_store_release(&x_has_key, has_key); /* release: see will_end */
    if (!ps_thread.has_begun) {
        begin_by_itself();
    }
    ps_thread_enter();
}

/*
 * ld.so copies the TLS image of the first thread after relocation, possibly after IFUNC resolvers
 * have allocated here: the thread then finds its words zero again, although it has a heap.
 */
static struct ps_heap *heap_before_reset(void) {
    /* relaxed, all three: they match only if this thread wrote them. */
    struct ps_heap *heap = ps_load_relaxed(&x_first_heap);
    bool is_own = heap != NULL && ps_load_relaxed(&heap->x_state) == PS_HEAP_LIVE &&
                  ps_load_relaxed(&heap->x_thread_pointer) == ps_thread_pointer();
    return is_own ? heap : NULL;
}

static void set_heap(struct ps_heap *heap) {
    /* relaxed, both: this thread's own; `ask` writes them only for an attached heap. */
    ps_store_relaxed(&ps_thread.own, heap);
    ps_store_relaxed(&ps_thread.heap, heap);
    ps_registry_set_words(&ps_thread, heap);
}

PS_COLD struct ps_heap *ps_heap_acquire(void) {
    ps_thread_enter();
    if (ps_thread.is_exiting) {
        return NULL;
    }
    struct ps_heap *heap = ps_heap_recover();
    if (heap != NULL) {
        return heap;
    }
    struct late_streak late = take_late_streak();
    heap = heap_before_reset();
    if (heap != NULL) {
        /* relaxed: this thread's own. Counted with the key, and announced as at the start. */
        ps_thread.has_begun = ps_load_relaxed(&x_has_key) != 0;
        ps_thread.is_announced = 1;
        heap->streak_span = NULL; /* its words are lost; its few blocks remain in use */
    } else {
        heap = ps_heap_make();
    }
    set_heap(heap);
    if (heap != NULL) {
        /* relaxed: as in heap_before_reset. */
        ps_store_relaxed(&heap->x_thread_pointer, ps_thread_pointer());
        ps_mode.hook.thread_start(heap);
        if (!ps_thread.has_begun) {
            ps_thread_leave(); /* the next may allocate; the heap is not attached: it is not taken
                                */
            begin_by_itself();
            ps_thread_enter();
        }
        attach(heap);
    }
    if (PS_UNLIKELY(late.from != NULL)) {
        free_late(&late);
        ps_thread_enter(); /* again: each of these frees has left, and the heap may be asked for */
        heap = ps_heap_recover();
    }
    return heap;
}

PS_COLD struct ps_heap *ps_heap_acquire_to_free(void) {
    return ps_thread.is_announced ? ps_heap_acquire() : NULL;
}

PS_COLD void ps_heap_give_up(void) {
    ps_thread_enter();
    ps_thread.is_exiting = 1;
    struct ps_heap *heap = ps_heap_recover();
    if (heap != NULL) {
        uint32_t all = UINT32_MAX;
        (void)ps_heap_clear_out(heap, ps_thread.streak_next, ps_thread.streak_step, &all);
        set_heap(NULL);
        /* relaxed: as in heap_before_reset. */
        ps_store_relaxed(&heap->x_thread_pointer, (uintptr_t)0);
        detach(heap);
        ps_heap_park(heap);
    }
    struct late_streak late = take_late_streak();
    free_late(&late);
    ps_thread_leave();
}

/* ---- heaps of threads that make no calls ---- */

static uint64_t x_next_walk_ms;
static uint64_t x_next_work_us;    /* 0: the last walk found no work */
static struct ps_heap *cursor;     /* next heap to examine; registry lock */
static struct ps_heap *idle_since; /* first heap of a sequence without work; NULL: none; likewise */

struct walk {
    uint64_t now_ms;
    uint32_t spans; /* remaining spans to release */
    uint32_t count;
    struct ps_heap *work[WORK_HEAPS]; /* HELD by this thread */
};

/* ---- under the registry lock ---- */

/* Step 1 of the protocol. */
static void ask(struct ps_thread_words *thread, struct ps_heap *heap) {
    uint32_t was_free = PS_THREAD_FREE;
    /* relaxed: NULL if the loader has reset the words (thread.c). acquire: pairs with
     * ps_thread_leave; the thread's accesses to its heap are visible. */
    if (ps_load_relaxed(&thread->own) != heap ||
        !ps_cas_strong_acquire(&thread->x_busy, &was_free, (uint32_t)PS_THREAD_ASKED)) {
        return;
    }
    heap->is_asked = true;
    thread->last = heap;
    ps_fence_program_order(); /* for the child of a fork: what it undoes, before that is done */
    /* relaxed, all: the time that passes makes them visible. `heap` is unchanged: a call that has
     * seen the limit is about to read it. */
    ps_store_relaxed(&thread->own, (struct ps_heap *)NULL);
    ps_store_relaxed(&thread->fast_limit, (size_t)0);
    ps_store_relaxed(&thread->key, PS_KEY_NO_SPAN);
    heap->asked_us = ps_os_now_us(); /* after all of these: the time that passes begins here */
}

/* Stops the heap's open streak. Its thread may still free the next blocks of it: see
 * take_late_streak. */
static void stop_streak(struct ps_thread_words *thread, struct ps_heap *heap) {
    if (heap->streak_span != NULL) {
        /* acquire: pairs with ps_heap_free; the blocks of the streak belong to this thread. */
        heap->streak_next = ps_exchange_acquire(&thread->streak_next, STOPPED);
        heap->streak_step = thread->streak_step;
        thread->streak_from = heap->streak_next;
    }
}

/* Step 2. Returns true when the heap is HELD by this thread. */
static bool take_heap(struct ps_thread_words *thread, struct ps_heap *heap) {
    if (ps_os_now_us() - heap->asked_us < PS_ANSWER_US) {
        return false;
    }
    if (ps_load_relaxed(&thread->x_busy) != PS_THREAD_ASKED) { /* relaxed: time has passed */
        ps_registry_restore(thread, heap);
        return false;
    }
    ps_registry_hold(heap);
    stop_streak(thread, heap);
    heap->is_asked = false;
    ps_thread_record_forget_heap(heap);
    return true;
}

/*
 * How long the heap's thread must have been idle. A take costs the thread some 30 us when it runs
 * again, whatever the size of the heap. So a small heap is taken later: when granules times
 * milliseconds reach a constant, as in ski rental. At most half of the purge delay, which is 0
 * while memory is short.
 */
static uint64_t idle_ms(const struct ps_heap *heap) {
    uint64_t granules = 1;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        /* relaxed: a hint. */
        granules += (uint64_t)ps_load_relaxed(&heap->x_spans[i]) * ps_size_classes[i].granules;
    }
    uint64_t wait_ms = ps_min(IDLE_GRANULE_MS / granules, ps_retention_delay_ms() / 2);
    return ps_max(IDLE_MS, wait_ms);
}

static bool is_idle(const struct ps_heap *heap, uint64_t now_ms) {
    uint64_t active_ms = ps_load_relaxed(&heap->x_active_ms); /* relaxed: a hint */
    /* Most heaps fail the first comparison, which does not count their spans. */
    return active_ms + IDLE_MS <= now_ms && active_ms + idle_ms(heap) <= now_ms;
}

/* Returns whether the heap is asked for, or was taken by this thread. */
static bool examine_heap(struct walk *walk, struct ps_heap *heap) {
    uint32_t state = ps_load_relaxed(&heap->x_state); /* relaxed: under the lock */
    if (state == PS_HEAP_IDLE) {
        ps_registry_hold(heap);
        walk->work[walk->count++] = heap;
        return true;
    }
    struct ps_thread_words *thread = ps_load_relaxed(&heap->x_thread); /* relaxed: as above */
    if (state != PS_HEAP_LIVE || thread == NULL || thread == &ps_thread ||
        !(heap->is_asked || is_idle(heap, walk->now_ms)) || !ps_thread_record_is_stable(heap)) {
        return false;
    }
    if (!heap->is_asked) {
        ask(thread, heap);
    } else if (take_heap(thread, heap)) {
        walk->work[walk->count++] = heap;
        return true;
    }
    return heap->is_asked;
}

/* Examines the next heaps. Returns false when all have been examined since the last one that needed
 * work. */
static bool examine_some(struct walk *walk) {
    bool is_round = false;
    cursor = cursor != NULL ? cursor : ps_registry_after(NULL);
    const struct ps_heap *first = cursor;
    for (int i = 0; i < WALK_HEAPS && walk->count < WORK_HEAPS && (i == 0 || cursor != first);
         i++) {
        if (examine_heap(walk, cursor)) {
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

/* relaxed, all: hints; a second thread that walks too does no harm. */
static bool is_time_to_walk(uint64_t now_ms) {
    uint64_t work_us = ps_load_relaxed(&x_next_work_us);
    return now_ms >= ps_load_relaxed(&x_next_walk_ms) ||
           (work_us != 0 && ps_os_now_us() >= work_us);
}

bool ps_take_tick(uint64_t now_ms) {
    /* relaxed: a hint. */
    if (!is_on || ps_load_relaxed(&ps_room_x_is_shared) == 0 || !is_time_to_walk(now_ms)) {
        return false;
    }
    ps_store_relaxed(&x_next_walk_ms, now_ms + WALK_MS); /* relaxed, as the next: hints */
    struct walk walk = {.now_ms = now_ms, .spans = CLEAR_SPANS};
    if (!ps_registry_try()) {
        return false;
    }
    bool has_more = examine_some(&walk);
    ps_registry_release();
    ps_store_relaxed(&x_next_work_us, has_more ? ps_os_now_us() + WORK_US : 0);
    for (uint32_t i = 0; i < walk.count; i++) {
        clear_out(walk.work[i], &walk.spans);
    }
    return has_more;
}
