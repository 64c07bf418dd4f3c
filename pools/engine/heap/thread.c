/* SPDX-License-Identifier: MIT */
/*
 * Threads and their heaps: acquisition, and release at the thread's end. No locks of its own.
 */
#include "pools/engine/heap/thread.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/take.h"

#include <pthread.h>

PS_HIDDEN PS_THREAD_LOCAL_LINE(struct ps_thread_words, ps_thread) =
    PS_THREAD_LOCAL_INIT({.key = PS_KEY_AT_ONCE}); /* ps_heap_key(NULL) */

static struct ps_heap *x_first_heap; /* of the thread that started the engine */
static pthread_key_t exit_key;
static bool has_key; /* constant after the start */

static void thread_ended(void *heap) {
    (void)heap;
    ps_heap_give_up();
    if (ps_thread.has_begun) {
        ps_thread.has_begun = 0;
        ps_background_thread_ended();
    }
}

/* Its end will be noticed. Once per thread, whatever becomes of its heap. */
static void note_begin(void) {
    if (!ps_thread.has_begun) {
        ps_thread.has_begun = 1;
        ps_background_thread_begun();
    }
}

void ps_thread_start(void) {
    /* Out of keys: heaps of ended threads are kept. */
    has_key = pthread_key_create(&exit_key, thread_ended) == 0;
}

void ps_thread_start_first(void) {
    ps_store_relaxed(&x_first_heap, ps_heap_acquire()); /* relaxed: see heap_before_reset */
}

/*
 * ld.so copies the TLS image of the first thread after relocation, possibly after IFUNC resolvers
 * have allocated here: the thread then finds its words zero again, although it has a heap.
 */
static struct ps_heap *heap_before_reset(void) {
    /* relaxed, all three: they match only if this thread wrote them. */
    struct ps_heap *heap = ps_load_relaxed(&x_first_heap);
    bool is_own = heap != NULL && ps_load_relaxed(&heap->x_state) == PS_HEAP_LIVE &&
                  ps_load_relaxed(&heap->x_thread_pointer) == (uintptr_t)__builtin_thread_pointer();
    return is_own ? heap : NULL;
}

static void set_heap(struct ps_heap *heap) {
    uintptr_t key = ps_heap_key(heap);
    if (heap != NULL && !ps_mode.hook.has_fast_free) {
        key = PS_KEY_NO_SPAN;
    }
    /* relaxed, all: this thread's own; take.c writes them only for an attached heap. */
    ps_store_relaxed(&ps_thread.own, heap);
    ps_store_relaxed(&ps_thread.heap, heap);
    ps_store_relaxed(&ps_thread.fast_limit,
                     ps_mode.hook.has_fast_alloc && heap != NULL ? PS_FEW_BYTES + 1 : (size_t)0);
    ps_store_relaxed(&ps_thread.key, key);
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
    struct ps_late_streak late = ps_take_late_streak();
    heap = heap_before_reset();
    if (heap != NULL) {
        ps_thread.has_begun = heap->x_thread != NULL; /* counted with the heap */
        heap->streak_span = NULL; /* its words are lost; its few blocks stay in use */
    } else {
        heap = ps_heap_make();
    }
    set_heap(heap);
    if (heap != NULL) {
        /* relaxed: as in heap_before_reset. */
        ps_store_relaxed(&heap->x_thread_pointer, (uintptr_t)__builtin_thread_pointer());
        bool will_end = has_key && pthread_setspecific(exit_key, heap) == 0; /* may allocate */
        ps_thread_enter();
        ps_mode.hook.thread_start(heap);
        if (will_end) {
            note_begin();
            ps_take_attach(heap); /* otherwise an ended thread would leave its words to take.c */
        }
    }
    ps_take_free_late(&late);
    return heap;
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
        ps_take_detach(heap);
        ps_heap_park(heap);
    }
    struct ps_late_streak late = ps_take_late_streak();
    ps_take_free_late(&late);
    ps_thread_leave();
}
