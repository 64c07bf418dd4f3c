/* SPDX-License-Identifier: MIT */
/*
 * Begin and end of the exact counting of a thread: see counting.h. Slow paths call this file, which
 * calls front_thread.c.
 */
#include "pools/engine/heap/counting.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/mode.h"

uint32_t ps_counting_x_wanted;

/* Notes now what the countdown has counted so far; the mode's samples count it at the next event.
 */
struct ps_thread_bytes *ps_counting_begin(uint32_t calls) {
    struct ps_front_words *words = &ps_front_thread;
    if (words->own == &ps_front_none || !ps_front_has_windows()) {
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

struct ps_thread_bytes *ps_counting_begin_frees(void) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_thread_bytes *bytes =
        ps_mode.hook.has_fast_free ? ps_counting_begin(PS_COUNTING_ALL_CALLS) : NULL;
    if (bytes != NULL && words->own != &ps_front_counting) {
        ps_front_close_streak();
        ps_front_share_own();
        words->own = &ps_front_counting;
        bytes->peak_base = bytes->x_allocated;
    }
    return bytes;
}

/* ---- questions of others ---- */

bool ps_counting_want(bool is_wanted) {
    if (!ps_mode.hook.has_fast_free) {
        return false;
    }
    ps_store_relaxed(&ps_counting_x_wanted, is_wanted ? 1u : 0u); /* relaxed: see follow */
    return true;
}

/* A thread that has entered goes on as it is, until it has left. Its allocations are counted for a
 * while longer, as after a question for them. */
static void end(struct ps_front_words *words, struct ps_thread_bytes *bytes) {
    if (bytes->is_asked) {
        bytes->is_wanted = false;
    } else if (words->own == &ps_front_counting) {
        bytes->is_wanted = false;
        bytes->exact_calls = PS_COUNTING_CALLS;
        words->own = NULL;
    }
}

PS_COLD void ps_counting_change(bool is_wanted) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_thread_bytes *bytes = &words->windows->bytes;
    if (!is_wanted) {
        end(words, bytes);
    } else if (bytes->exact_calls == PS_COUNTING_ALL_CALLS) {
        bytes->is_wanted = true;
    } else if (words->armed_bytes != 0 || ps_front_begin_to_free()) {
        bytes = ps_counting_begin_frees();
        if (bytes != NULL) {
            bytes->is_wanted = true;
        }
    }
}
