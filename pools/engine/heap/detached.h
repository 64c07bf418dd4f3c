/* SPDX-License-Identifier: MIT */
/*
 * Calls of threads without a heap: before this library has been relocated (bootstrap.h), before the
 * engine has started, before the thread's first allocation, and after its clean-up. These functions
 * distinguish the cases for all entry points. Rare: reached only from slow paths, when the thread's
 * words have no heap.
 *
 * After thread exit: destructors of thread-local objects and pthread keys may allocate after the
 * thread's heap has been given up. These calls share one heap under a lock (PS_RANK_EXITED), so
 * that nothing is leaked and no further clean-up is needed. Slow by design. Their frees are
 * transferred to the owner at once (ps_remote_free_at_once).
 *
 * Results and errors are those of the functions of fast_path.h, alloc.h and resize.h. Any thread.
 */
#ifndef PS_HEAP_DETACHED_H
#define PS_HEAP_DETACHED_H

#include "pools/engine/small/span.h"

void *ps_detached_alloc(size_t bytes);
void *ps_detached_zalloc(size_t bytes);
void *ps_detached_alloc_aligned(size_t bytes, size_t align);

/* As free_block of struct ps_mode_entry, except that block may be NULL. */
void ps_detached_free(struct ps_span *span, void *block, uintptr_t owner_key);

/* block: not NULL. */
void *ps_detached_resize(void *block, size_t bytes);
size_t ps_detached_usable(const void *block);

/* Repairs the lock in the child of a fork, on its only thread. Returns the shared heap, NULL if it
 * was abandoned. */
struct ps_heap;
const struct ps_heap *ps_detached_fork_child(void);

#endif
