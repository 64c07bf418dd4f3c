/* SPDX-License-Identifier: MIT */
/*
 * See thread.h.
 */
#include "pools/engine/heap/thread.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/metadata.h"

#include <pthread.h>

static struct ps_lock starts_lock = PS_LOCK_INIT(PS_RANK_STARTS);
static struct ps_thread_start *free_starts;

static pthread_key_t exit_key;
static uint32_t x_has_key;

static void thread_ended(void *unused) {
    (void)unused;
    ps_front_thread_ended();
    /* relaxed: this thread's own. */
    if (ps_exchange_relaxed(&ps_front_thread.x_is_counted, 0u) != 0) {
        ps_background_thread_ended();
    }
}

struct ps_thread_start *ps_thread_start_take(void) {
    ps_lock_acquire(&starts_lock);
    struct ps_thread_start *start = free_starts;
    free_starts = start != NULL ? start->next : NULL;
    ps_lock_release(&starts_lock);
    return start != NULL ? start : ps_metadata_take(sizeof *start);
}

void ps_thread_start_give(struct ps_thread_start *start) {
    ps_lock_acquire(&starts_lock);
    start->next = free_starts;
    free_starts = start;
    ps_lock_release(&starts_lock);
}

void ps_thread_fork_child(void) {
    if (ps_lock_fork_child(&starts_lock)) {
        free_starts = NULL; /* another thread was changing it */
    }
}

bool ps_thread_will_end(void) {
    /* acquire: pairs with ps_thread_start_first; makes the key visible. */
    return ps_load_acquire(&x_has_key) != 0 && pthread_setspecific(exit_key, &exit_key) == 0;
}

__attribute__((weak)) void ps_thread_begun_by_itself(void) {}

void ps_thread_count(void) {
    /* relaxed: this thread's own, and its signal handlers'. */
    if (ps_exchange_relaxed(&ps_front_thread.x_is_counted, 1u) == 0) {
        ps_background_thread_begun();
        if (!ps_front_thread.is_announced) {
            ps_thread_begun_by_itself();
        }
    }
}

void ps_thread_begin(void) {
    ps_front_thread.is_announced = true;
    if (ps_front_end_is_noted()) {
        ps_thread_count();
    }
    ps_background_thread_seen();
}

void ps_thread_start_first(void) {
    ps_front_thread.is_announced = true;
    /* Out of keys: the end of no thread is noticed. */
    uint32_t has_key = pthread_key_create(&exit_key, thread_ended) == 0;
    ps_store_release(&x_has_key, has_key); /* release: pairs with ps_thread_will_end */
}
