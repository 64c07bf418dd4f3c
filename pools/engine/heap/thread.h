/* SPDX-License-Identifier: MIT */
/*
 * The beginning and the end of threads. A thread is counted (background.h) from its start routine
 * on, if the shim created it, else from its first allocation. libc's key destructors report its
 * end: they return its blocks (ps_front_thread_ended) and uncount it. A thread that ends by the
 * system call `exit` runs no destructor: it counts for good.
 *
 * Callers: front_thread.c, start.c, shim/threads.c. The calling thread only, except as noted. Lock:
 * starts_lock, for a list.
 */
#ifndef PS_HEAP_THREAD_H
#define PS_HEAP_THREAD_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>

/* The program's routine of a thread, and its argument, for the start routine of the shim. */
struct ps_thread_start {
    void (*routine)(void);
    void *argument;
    struct ps_thread_start *next;
};

/* Memory for one, of the engine's own: no block of the program. NULL when memory is exhausted. Any
 * thread. */
struct ps_thread_start *ps_thread_start_take(void);
void ps_thread_start_give(struct ps_thread_start *start);

/* Announces the calling thread, before the program's routine: its end will be noticed, even if it
 * never allocates. */
void ps_thread_begin(void);

/* Counts the calling thread, whose end will be noticed, unless it is counted. May allocate. */
void ps_thread_count(void);

/* Called when a thread that was not announced is counted. May allocate. The engine's own does
 * nothing. */
PS_HOOK void ps_thread_begun_by_itself(void);

/* Registers the end of the calling thread with libc, which may allocate. False: it will not be
 * noticed. */
bool ps_thread_will_end(void);

/* Called once, after the start, without a lock, by the thread that started the engine: creates the
 * key by which libc reports the ends of threads. */
void ps_thread_start_first(void);

/* Repairs the list in the child of a fork, on its only thread. */
void ps_thread_fork_child(void);

#endif
