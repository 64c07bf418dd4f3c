/* SPDX-License-Identifier: MIT */
/*
 * The bytes that a thread has allocated and freed. Each thread counts the bytes that it requests,
 * by its countdown (front_thread.h), up to the last event, which is at most 64 KiB of requests ago.
 * In that count a block above the classes counts for 2 KiB at most.
 *
 * A thread that asks is counted exactly from then on, each block at its usable size. Its malloc
 * takes the slow path: left_bytes is always below 0, so that each request is an event. Other
 * threads pay nothing. A thread that asks for what it allocated returns to the fast path after
 * PS_COUNTING_CALLS requests without another question.
 *
 * One that asks for what it freed is counted until it ends. It has ps_front_counting for its own
 * front, which takes no block and has none, so that each free and each malloc without a window
 * comes to a slow path. That path serves it from the front of its concurrency id. Frees of guarded
 * samples are not counted.
 *
 * While ps_counting_x_wanted is not 0, all threads are counted so: each from its next slow call on,
 * until one after the word is 0 again. POOLSHIM_THREAD_BYTES sets it, and `poolshim set`.
 *
 * The counts are in the thread's record of windows, where other processes read them; a thread has
 * one from its first event on, at the latest. Callers: the slow paths of heap/,
 * shim/mallctl_thread.c. The calling thread only. No locks.
 */
#ifndef PS_HEAP_COUNTING_H
#define PS_HEAP_COUNTING_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/length.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_COUNTING_CALLS 1024
#define PS_COUNTING_ALL_CALLS UINT32_MAX

/* The own front of a thread whose frees are counted. */
extern PS_HIDDEN struct ps_front ps_front_counting;

/* ---- questions: counting_begin.c ----
 * Each begins to count, or goes on. The words are the thread's, and change until it ends. */

/* NULL: memory is exhausted, or the thread's destructors have run. */
const uint64_t *ps_counting_allocated(void);

/* NULL: the same, or the mode's frees are not counted, since they do not take the fast path anyway.
 * Frees before the first question are not in it. */
const uint64_t *ps_counting_freed(void);

/* The most bytes that the thread has allocated less those that it has freed, since the last
 * ps_counting_reset_peak, or its first question. False: as above. */
bool ps_counting_peak(uint64_t *peak);
bool ps_counting_reset_peak(void);

/* ---- questions of others ---- */

/* 1: the frees of all threads are counted. Other processes write it, too. */
extern PS_HIDDEN uint32_t ps_counting_x_wanted;

/* Sets it. False, and no change: the mode's frees are not counted. */
bool ps_counting_want(bool is_wanted);

/* Begins or ends the counting of the calling thread: counting_follow.c. */
void ps_counting_change(bool is_wanted);

/* Called on slow paths, before ps_counting_enter. relaxed: a change is seen by a later call. */
static inline void ps_counting_follow(void) {
    bool is_wanted = ps_load_relaxed(&ps_counting_x_wanted) != 0;
    if (PS_UNLIKELY(is_wanted != ps_front_thread.windows->bytes.is_wanted)) {
        ps_counting_change(is_wanted);
    }
}

/* Begins to count the calling thread, which has begun: its allocations, so many of them; its frees,
 * too. NULL: it has no record, and gets none, or the mode's frees are not counted. */
struct ps_thread_bytes *ps_counting_begin(uint32_t calls);
struct ps_thread_bytes *ps_counting_begin_frees(void);

/* ---- for slow paths ---- */

/* True for a thread each of whose requests is counted. */
static inline bool ps_counting_is_exact(void) {
    return ps_front_thread.windows->bytes.exact_calls != 0;
}

/* Called at an event of a counted thread: notes the request, by what the countdown says. Returns
 * the bytes requested since the last event. */
int64_t ps_counting_note_event(void);

/* armed_bytes of a counted thread: more than any countdown begins at. */
#define PS_COUNTING_ARMED UINT32_MAX

/* Arms the countdown of a counted thread. False: it is none, or none any more. */
bool ps_counting_arm(void);

/* True for a counted thread at an event at which the clock is read. */
bool ps_counting_is_tick_due(void);

/* Lets a thread whose frees are counted use the front of its id. Returns whether it is one. */
static inline bool ps_counting_enter(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (PS_LIKELY(words->own != &ps_front_counting)) {
        return false;
    }
    words->own = NULL;
    return true;
}
static inline void ps_counting_leave(void) {
    struct ps_front_words *words = &ps_front_thread;
    ps_front_close_streak();             /* its blocks would be freed without a slow path */
    if (PS_LIKELY(words->own == NULL)) { /* the thread has not ended meanwhile */
        words->own = &ps_front_counting;
    }
}

/* Counts bytes of a counted thread that are in no request of the countdown. */
void ps_counting_add_allocated(size_t bytes);

/* Called before the event of a block above the classes, which may be longer than requests of so
 * many bytes get. */
static inline void ps_counting_note_large(const void *block, size_t bytes) {
    if (PS_UNLIKELY(ps_counting_is_exact())) {
        size_t usable = ps_large_usable(ps_page_map_slot(block), block);
        ps_counting_add_allocated(usable - ps_length_of(bytes, 1));
    }
}

/* Counts a freed block, if the thread's frees are counted; a thread that has entered counts by the
 * second. */
void ps_counting_add_freed(size_t bytes);
static inline void ps_counting_note_free(size_t bytes) {
    if (PS_UNLIKELY(ps_front_thread.own == &ps_front_counting)) {
        ps_counting_add_freed(bytes);
    }
}

/* Takes back the free of a block that gives way to a sampled one. */
static inline void ps_counting_note_replaced(size_t bytes) {
    if (PS_UNLIKELY(ps_front_thread.own == &ps_front_counting)) {
        ps_counting_add_allocated(bytes);
    }
}

/* Counts a block above the classes that was resized without a copy. */
static inline void ps_counting_note_resize(size_t old_bytes, const void *block) {
    if (PS_UNLIKELY(ps_counting_is_exact())) {
        ps_counting_add_allocated(ps_large_usable(ps_page_map_slot(block), block));
        ps_counting_note_free(old_bytes);
    }
}

#endif
