/* SPDX-License-Identifier: MIT */
/*
 * Heaps and threads: start of the engine, a thread's first allocation, its end, and fork.
 * Locks: init_lock (the start), registry_lock (the lists of heaps).
 */
#include "pools/engine/heap/start.h"

#include "pools/engine/heap/blocks.h"
#include "pools/engine/heap/foreign.h"
#include "pools/engine/heap/fork.h"
#include "pools/engine/heap/hard.h"
#include "pools/engine/heap/idle.h"
#include "pools/engine/heap/record.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/small/central.h"
#include "pools/engine/small/span_list.h"
#include "pools/engine/small/span_remote.h"

#include <pthread.h>

__thread PS_HIDDEN struct ps_thread ps_thread __attribute__((tls_model("initial-exec"))) = {
    .key = PS_KEY_AT_ONCE /* ps_heap_key(NULL) */
};

#define HARDENED_GUARD_SAMPLE 1000 /* at level 3, unless the user says otherwise */

static struct ps_lock init_lock = PS_LOCK_INIT(PS_RANK_INIT);
static uint32_t x_is_started;
/* No undo log: the lists change by one store each, and a heap or a span that its thread had in hand
 * is one of a dead heap in the child of a fork, wherever the thread stood. */
static struct ps_lock registry_lock = PS_LOCK_INIT(PS_RANK_REGISTRY);
static struct ps_heap *all_heaps;
static struct ps_heap *parked_heaps;
static struct ps_heap *x_first_heap; /* of the thread that started the engine */
static pthread_key_t exit_key;

__attribute__((weak)) void ps_configure(struct ps_config *config) { (void)config; }

static void thread_ended(void *heap) {
    (void)heap;
    ps_heap_give_up();
}

/* Under init_lock; nothing here allocates. */
static void start_locked(void) {
    struct ps_config config = PS_CONFIG_DEFAULT;
    ps_configure(&config);
    ps_link_start();
    ps_hard_start(&config);
    ps_size_class_start(&config);
    ps_page_cache_start(&config);
    ps_record_start(&config);
    ps_purge_start(config.purge_delay_ms);
    ps_large_start(&config);
    ps_idle_start(config.purge_delay_ms);
    ps_foreign_start(config.foreign);
    if (config.harden == 3 && config.guard_sample == 0) {
        config.guard_sample = HARDENED_GUARD_SAMPLE;
    }
    ps_guard_start(&config);
    (void)pthread_key_create(&exit_key,
                             thread_ended); /* out of keys: heaps of ended threads stay */
}

PS_COLD void ps_engine_start(void) {
    bool is_first = false;
    ps_lock_acquire(&init_lock);
    if (ps_load_relaxed(&x_is_started) == 0) { /* relaxed: under the lock */
        start_locked();
        is_first = true;
        /* release: pairs with the acquire in ps_heap_acquire; makes tables and settings visible. */
        ps_store_release(&x_is_started, 1u);
    }
    ps_lock_release(&init_lock);
    if (is_first) {
        /* relaxed: it means something to the writer only. */
        ps_store_relaxed(&x_first_heap, ps_heap_acquire());
        ps_fork_register(); /* may allocate */
    }
}

bool ps_engine_has_started(void) {
    return ps_load_acquire(&x_is_started) != 0; /* acquire: pairs with ps_engine_start */
}

struct ps_heap *ps_heap_make(void) {
    ps_lock_acquire(&registry_lock);
    struct ps_heap *heap = parked_heaps;
    bool is_second = all_heaps != NULL;
    if (heap != NULL) {
        parked_heaps = heap->next_parked;
        heap->is_offered = false;
        heap->tick_countdown = 0;
        ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_LIVE); /* relaxed: census only */
        ps_lock_release(&registry_lock);
        return heap;
    }
    ps_lock_release(&registry_lock);
    if (is_second) {
        ps_lock_watch_forks(); /* now there are threads that a fork leaves behind */
        ps_store_relaxed(&ps_room_x_is_shared, 1u); /* relaxed: a hint */
    }
    struct ps_tally *tally = PS_UNLIKELY(ps_record_is_on()) ? ps_record_make() : NULL;
    heap = ps_record_is_on() && tally == NULL ? NULL : ps_metadata_take(sizeof *heap);
    if (heap == NULL) {
        return NULL;
    }
    heap->tally = tally;
    PS_CHECK(((uintptr_t)heap & PS_KEY_MASK) == 0);
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        heap->bins[i].block_bytes = ps_size_classes[i].block_bytes;
    }
    for (uint32_t i = 0; i < PS_BIN_LIMIT; i++) {
        heap->bins[i].source = &ps_span_none;
        heap->bins[i].span = &ps_span_none;
    }
    heap->hard = ps_hard_is_on() ? ps_hard_make() : NULL;
    ps_lock_acquire(&registry_lock);
    heap->next_heap = all_heaps;
    ps_fence_program_order(); /* for the child of a fork: the list is whole */
    all_heaps = heap;
    ps_lock_release(&registry_lock);
    return heap;
}

/*
 * ld.so copies the TLS image of the first thread after relocation, that is after IFUNC resolvers
 * may have allocated here: the thread then finds its words zero again. Its heap is still its own.
 */
static struct ps_heap *heap_before_reset(void) {
    /* relaxed, all three: they match only if this thread wrote them. */
    struct ps_heap *heap = ps_load_relaxed(&x_first_heap);
    bool is_own = heap != NULL && ps_load_relaxed(&heap->x_state) == PS_HEAP_LIVE &&
                  ps_load_relaxed(&heap->x_thread_pointer) == (uintptr_t)__builtin_thread_pointer();
    return is_own ? heap : NULL;
}

static void set_heap(struct ps_heap *heap) {
    ps_thread.own = heap;
    ps_thread.heap = ps_hard_is_on() || ps_record_is_on() ? NULL : heap;
    ps_thread.key = ps_heap_key(ps_hard_level != 0 || ps_record_is_on() ? NULL : heap);
}

PS_COLD struct ps_heap *ps_heap_acquire(void) {
    if (!ps_engine_has_started()) {
        ps_engine_start();
        if (ps_thread.own != NULL) {
            return ps_thread.own;
        }
    }
    if (ps_thread.is_exiting) {
        return NULL;
    }
    struct ps_heap *heap = heap_before_reset();
    if (heap != NULL) {
        heap->run_span = NULL; /* an open run's words are gone; its few blocks stay in use */
    } else {
        heap = ps_heap_make();
    }
    set_heap(heap);
    if (heap != NULL) {
        /* relaxed: as in heap_before_reset. */
        ps_store_relaxed(&heap->x_thread_pointer, (uintptr_t)__builtin_thread_pointer());
        (void)pthread_setspecific(exit_key, heap);
        if (PS_UNLIKELY(ps_record_is_on())) {
            ps_record_begin(heap);
        }
    }
    return heap;
}

static void orphan_available(struct ps_heap *heap, uint32_t class_index) {
    for (struct ps_span *span; (span = heap->available[class_index]) != NULL;) {
        ps_room_leave(heap, span);
        ps_room_orphan(heap, span);
    }
}

/*
 * A heap whose thread has ended serves the next one when it has no span left. Before, its spans
 * would become those of a thread that may not run for a while, instead of orphans that whoever
 * frees their blocks can adopt.
 */
static void offer_if_empty_locked(struct ps_heap *heap) {
    uint32_t spans = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        spans +=
            ps_load_relaxed(&heap->x_spans[i]); /* relaxed: whoever takes the last one offers */
    }
    /* relaxed: under the lock. */
    if (spans == 0 && !heap->is_offered && ps_load_relaxed(&heap->x_state) == PS_HEAP_PARKED) {
        heap->is_offered = true;
        heap->next_parked = parked_heaps;
        ps_fence_program_order(); /* for the child of a fork: the list is whole */
        parked_heaps = heap;
    }
}

PS_COLD void ps_heap_give_up(void) {
    struct ps_heap *heap = ps_thread.own;
    ps_thread.is_exiting = 1;
    if (heap == NULL) {
        return;
    }
    /* First what may bring in spans of any class; a tick would do it again. */
    heap->tick_countdown = UINT32_MAX;
    ps_run_close(heap);
    ps_recent_flush_all(heap);
    ps_hard_flush_all(heap); /* before the next: blocks of others wait, too */
    ps_remote_flush(heap);
    ps_heap_take_wakes(heap);
    if (PS_UNLIKELY(ps_record_is_on())) {
        ps_record_end(heap); /* before others take spans, and what is freed there off their tally */
    }
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_heap_empty_bin(heap, i);
        orphan_available(heap, i);
    }
    /* Full spans stay: they are found by the first block that comes back. */
    set_heap(NULL);
    ps_store_relaxed(&heap->x_thread_pointer, (uintptr_t)0); /* relaxed: as in heap_before_reset */
    ps_lock_acquire(&registry_lock);
    /* seq_cst: see ps_heap_send_on_wakes. */
    ps_store_seq_cst(&heap->x_state, (uint32_t)PS_HEAP_PARKED);
    offer_if_empty_locked(heap);
    ps_lock_release(&registry_lock);
    ps_heap_send_on_wakes(heap); /* sent since they were last taken */
}

void ps_heap_offer(struct ps_heap *heap) {
    ps_lock_acquire(&registry_lock);
    offer_if_empty_locked(heap);
    ps_lock_release(&registry_lock);
}

bool ps_heap_leave_parked(struct ps_span *span, uintptr_t key, uintptr_t new_key) {
    struct ps_heap *heap = ps_heap_of_key(key);
    ps_lock_acquire(&registry_lock); /* stands in for the owner: no thread can take the heap */
    /* relaxed, both: written under the lock, the owner by whoever holds the span. */
    bool is_parked =
        ps_load_relaxed(&span->x_owner) == key && ps_load_relaxed(&heap->x_state) == PS_HEAP_PARKED;
    if (is_parked) {
        ps_span_clear_queued(span);
        if (new_key == PS_KEY_ORPHAN) {
            ps_room_orphan(heap, span);
        } else {
            ps_span_hold(span);
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
    for (struct ps_heap *heap = all_heaps; heap != NULL; heap = heap->next_heap) {
        visit(heap, context);
    }
    ps_lock_release(&registry_lock);
}

void ps_thread_fork_child(const struct ps_heap *late_heap) {
    ps_lock_fork_child(&init_lock);
    ps_lock_fork_child(&registry_lock);
    for (struct ps_heap *heap = all_heaps; heap != NULL; heap = heap->next_heap) {
        /* relaxed, both: one thread. */
        uint32_t state = ps_load_relaxed(&heap->x_state);
        bool is_left_behind = (state == PS_HEAP_LIVE && heap != ps_thread.own) ||
                              (state == PS_HEAP_SHARED && heap != late_heap);
        if (is_left_behind) {
            ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_DEAD);
        }
    }
}

void ps_thread_fork_salvage(void) {
    for (struct ps_heap *heap = all_heaps; heap != NULL; heap = heap->next_heap) {
        if (heap->x_state == PS_HEAP_DEAD) {
            ps_heap_take_wakes(heap);
        } else {
            ps_heap_send_on_wakes(heap); /* the thread that was about to is not here */
        }
    }
}
