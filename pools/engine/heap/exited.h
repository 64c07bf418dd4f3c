/* SPDX-License-Identifier: MIT */
/*
 * Allocations after thread exit: destructors of thread-local objects and pthread keys may allocate
 * after the thread's heap has been given up. These calls share one heap under a lock
 * (PS_RANK_EXITED), so that nothing is leaked and no further clean-up is needed. Slow by design.
 * Their frees are transferred to the owner at once (ps_remote_free_at_once).
 *
 * Caller: detached.c, for a thread that cannot have a heap: it has ended, or memory is exhausted.
 */
#ifndef PS_HEAP_EXITED_H
#define PS_HEAP_EXITED_H

#include <stddef.h>

/* NULL with errno ENOMEM. */
void *ps_exited_alloc(size_t bytes);
void *ps_exited_zalloc(size_t bytes);
void *ps_exited_alloc_aligned(size_t bytes, size_t align);

/* Repairs the lock in the child of a fork, on its only thread. Returns the shared heap, NULL if it
 * was abandoned. */
struct ps_heap;
const struct ps_heap *ps_exited_fork_child(void);

#endif
