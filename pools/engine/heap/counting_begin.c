/* SPDX-License-Identifier: MIT */
/*
 * The questions of counting.h: each begins to count. They call the engine's start and share the
 * thread's front, which counting.c must not, because slow paths call that.
 */
#include "pools/engine/heap/counting.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"

/* Notes now what the countdown has counted so far; the mode's samples count it at the next event.
 * NULL: the thread has no record, and gets none. */
static struct ps_thread_bytes *begin(uint32_t calls) {
    struct ps_front_words *words = &ps_front_thread;
    if (!ps_engine_may_serve() || words->own == &ps_front_none || !ps_front_has_windows()) {
        return NULL;
    }
    struct ps_thread_bytes *bytes = &words->windows->bytes;
    if (bytes->exact_calls == 0) {
        int64_t counted = (int64_t)words->armed_bytes - words->left_bytes;
        bytes->early_bytes = (uint32_t)counted;
        /* relaxed: the calling thread writes; other processes read. */
        ps_store_relaxed(&bytes->x_allocated, bytes->x_allocated + (uint64_t)counted);
    }
    bytes->exact_calls = (uint32_t)ps_max(bytes->exact_calls, calls);
    (void)ps_counting_arm();
    return bytes;
}

static struct ps_thread_bytes *begin_frees(void) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_thread_bytes *bytes =
        ps_mode.hook.has_fast_free ? begin(PS_COUNTING_ALL_CALLS) : NULL;
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
