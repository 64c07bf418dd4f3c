/* SPDX-License-Identifier: MIT */
/*
 * A thread and its heap: how it gets one, and how it gives it up at its end. Any thread, for
 * itself.
 */
#ifndef PS_HEAP_THREAD_H
#define PS_HEAP_THREAD_H

#include "pools/engine/heap/heap.h"

/*
 * The calling thread's heap, made or recycled if it has none. The engine has started. NULL when
 * memory is out or the thread is past its clean-up (is_exiting).
 */
struct ps_heap *ps_heap_acquire(void);

/* Gives the calling thread's heap up, as at its end. For tests; threads do it by themselves. */
void ps_heap_give_up(void);

/*
 * Lets go of all that a heap has, but full spans: those are found by the first block that comes
 * back. The caller is its thread, at its end, or holds it. streak_next, streak_step: where its open
 * run stands. Gives up *spans spans at most, and takes them off there; false: some are left.
 */
bool ps_heap_clear_out(struct ps_heap *heap, char *streak_next, ptrdiff_t streak_step,
                       uint32_t *spans);

/* Once, at start; then the first heap, for the thread that started the engine. */
void ps_thread_start(void);
void ps_thread_start_first(void);

#endif
