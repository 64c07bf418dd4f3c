/* SPDX-License-Identifier: MIT */
/*
 * Threads past their clean-up: destructors of thread-local objects and pthread keys may allocate
 * after the thread's heap has been given up. They share one heap under a lock (PS_RANK_EXITED), so
 * nothing is leaked and nothing has to run again. Slow, and meant to be. What they free is handed
 * to its owner at once (ps_remote_free_at_once).
 *
 * Caller: detached.c, for a thread that could not have a heap; if it has not ended, that is because
 * memory is out.
 */
#ifndef PS_HEAP_EXITED_H
#define PS_HEAP_EXITED_H

#include <stddef.h>

/* NULL with errno ENOMEM. */
void *ps_exited_alloc(size_t bytes);
void *ps_exited_zalloc(size_t bytes);
void *ps_exited_alloc_aligned(size_t bytes, size_t align);

/* In the child of a fork, by its only thread. Returns the shared heap, if it is still in use. */
struct ps_heap;
const struct ps_heap *ps_exited_fork_child(void);

#endif
