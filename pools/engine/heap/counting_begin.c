/* SPDX-License-Identifier: MIT */
/*
 * The questions of counting.h: each begins to count. They call the engine's start, which
 * counting_follow.c must not, because slow paths call that.
 */
#include "pools/engine/heap/counting.h"

#include "pools/engine/heap/start.h"

static struct ps_thread_bytes *begin(uint32_t calls) {
    return ps_engine_may_serve() ? ps_counting_begin(calls) : NULL;
}

static struct ps_thread_bytes *begin_frees(void) {
    struct ps_thread_bytes *bytes = ps_engine_may_serve() ? ps_counting_begin_frees() : NULL;
    if (bytes != NULL) {
        bytes->is_asked = true;
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
