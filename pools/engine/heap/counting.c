/* SPDX-License-Identifier: MIT */
/*
 * See counting.h.
 */
#include "pools/engine/heap/counting.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"

#define LEFT_BYTES INT64_C(-1) /* of a counted thread: each request is an event */

struct ps_front ps_front_counting; /* constant: its limits are 0 */

/* relaxed, below: the calling thread writes; other processes read. */

static struct ps_thread_bytes *own_bytes(void) { return &ps_front_thread.windows->bytes; }

static void add_to(uint64_t *word, uint64_t bytes) {
    ps_store_relaxed(word, ps_load_relaxed(word) + bytes);
}

static void note_peak(struct ps_thread_bytes *bytes) {
    int64_t now = (int64_t)(bytes->x_allocated - bytes->x_freed - bytes->peak_base);
    if (now > bytes->peak) {
        bytes->peak = now;
    }
}

int64_t ps_counting_note_event(void) {
    struct ps_thread_bytes *bytes = own_bytes();
    int64_t requested = LEFT_BYTES - ps_front_thread.left_bytes;
    if (PS_UNLIKELY(!ps_counting_is_exact())) { /* the thread has ended, and has no record */
        return requested;
    }
    int64_t since = requested + bytes->early_bytes;
    bytes->early_bytes = 0;
    add_to(&bytes->x_allocated, ps_length_of((size_t)requested, 1));
    bytes->silent_bytes += (uint32_t)ps_min((size_t)requested, PS_FRONT_EVENT_BYTES);
    note_peak(bytes);
    if (bytes->exact_calls != PS_COUNTING_ALL_CALLS) {
        bytes->exact_calls--;
    }
    return since;
}

bool ps_counting_arm(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (!ps_counting_is_exact()) {
        return false;
    }
    words->armed_bytes = PS_COUNTING_ARMED;
    words->left_bytes = LEFT_BYTES;
    words->large_most_bytes = SIZE_MAX >> 1;
    return true;
}

bool ps_counting_is_tick_due(void) {
    struct ps_thread_bytes *bytes = own_bytes();
    if (bytes->silent_bytes < PS_FRONT_EVENT_BYTES) {
        return false;
    }
    bytes->silent_bytes = 0;
    return true;
}

void ps_counting_add_allocated(size_t bytes) {
    add_to(&own_bytes()->x_allocated, bytes);
    note_peak(own_bytes());
}

void ps_counting_add_freed(size_t bytes) { add_to(&own_bytes()->x_freed, bytes); }
