/* SPDX-License-Identifier: MIT */
/*
 * See counting.h.
 */
#include "pools/engine/heap/counting.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"

#define ALL_CALLS UINT32_MAX

#define LEFT_BYTES INT64_C(-1) /* of a counted thread: each request is an event */

struct ps_front ps_front_counting; /* constant: its limits are 0 */

/* relaxed, below: the calling thread writes; other processes read. */

static struct ps_thread_bytes *own_bytes(void) { return &ps_front_thread.windows->bytes; }

static void add_to(uint64_t *word, uint64_t bytes) {
    ps_store_relaxed(word, ps_load_relaxed(word) + bytes);
}

/* False: the thread gets no record. */
static bool has_record(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (PS_UNLIKELY(words->windows == &ps_windows_none) && ps_front_end_is_noted()) {
        struct ps_windows *windows = ps_windows_acquire();
        words->windows = windows != NULL ? windows : &ps_windows_none;
    }
    return words->windows != &ps_windows_none;
}

static void note_peak(struct ps_thread_bytes *bytes) {
    int64_t now = (int64_t)(bytes->x_allocated - bytes->x_freed - bytes->peak_base);
    if (now > bytes->peak) {
        bytes->peak = now;
    }
}

PS_COLD void ps_counting_add_first(int64_t bytes) {
    if (bytes > 0 && has_record()) {
        add_to(&own_bytes()->x_allocated, (uint64_t)bytes);
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
    add_to(&bytes->x_allocated, ps_block_length((size_t)requested, 1));
    bytes->silent_bytes += (uint32_t)ps_min((size_t)requested, PS_FRONT_EVENT_BYTES);
    note_peak(bytes);
    if (bytes->exact_calls != ALL_CALLS) {
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

void ps_counting_leave(void) {
    struct ps_front_words *words = &ps_front_thread;
    ps_front_close_streak();             /* its blocks would be freed without a slow path */
    if (PS_LIKELY(words->own == NULL)) { /* the thread has not ended meanwhile */
        words->own = &ps_front_counting;
    }
}

void ps_counting_add_allocated(size_t bytes) {
    if (has_record()) {
        add_to(&own_bytes()->x_allocated, bytes);
        note_peak(own_bytes());
    }
}

void ps_counting_add_longer(const void *block, size_t bytes) {
    size_t usable = ps_large_usable(ps_page_map_slot(block), block);
    add_to(&own_bytes()->x_allocated, usable - ps_block_length(bytes, 1));
}

void ps_counting_add_freed(size_t bytes) { add_to(&own_bytes()->x_freed, bytes); }

void ps_counting_add_resized(size_t old_bytes, const void *block) {
    ps_counting_add_allocated(ps_large_usable(ps_page_map_slot(block), block));
    ps_counting_note_free(old_bytes);
}

/* ---- questions ---- */

/* Notes now what the countdown has counted so far; the mode's samples count it at the next event.
 * NULL: the thread has no record, and gets none. */
static struct ps_thread_bytes *begin(uint32_t calls) {
    struct ps_front_words *words = &ps_front_thread;
    if (!ps_engine_may_serve() || words->own == &ps_front_none || !has_record()) {
        return NULL;
    }
    struct ps_thread_bytes *bytes = own_bytes();
    if (bytes->exact_calls == 0) {
        int64_t counted = (int64_t)words->armed_bytes - words->left_bytes;
        bytes->early_bytes = (uint32_t)counted;
        add_to(&bytes->x_allocated, (uint64_t)counted);
    }
    bytes->exact_calls = (uint32_t)ps_max(bytes->exact_calls, calls);
    (void)ps_counting_arm();
    return bytes;
}

static struct ps_thread_bytes *begin_frees(void) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_thread_bytes *bytes = ps_mode.hook.has_fast_free ? begin(ALL_CALLS) : NULL;
    if (bytes != NULL && words->own != &ps_front_counting) {
        ps_front_close_streak();
        ps_front_share_own();
        words->own = &ps_front_counting;
        bytes->peak_base = bytes->x_allocated;
    }
    return bytes;
}

const uint64_t *ps_counting_allocated(void) {
    struct ps_thread_bytes *bytes = begin(PS_COUNTING_CALLS);
    return bytes != NULL ? &bytes->x_allocated : NULL;
}

const uint64_t *ps_counting_freed(void) {
    struct ps_thread_bytes *bytes = begin_frees();
    return bytes != NULL ? &bytes->x_freed : NULL;
}

bool ps_counting_peak(uint64_t *peak) {
    const struct ps_thread_bytes *bytes = begin_frees();
    *peak = bytes != NULL ? (uint64_t)bytes->peak : 0;
    return bytes != NULL;
}

bool ps_counting_reset_peak(void) {
    struct ps_thread_bytes *bytes = begin_frees();
    if (bytes == NULL) {
        return false;
    }
    bytes->peak_base = bytes->x_allocated - bytes->x_freed;
    bytes->peak = 0;
    return true;
}
