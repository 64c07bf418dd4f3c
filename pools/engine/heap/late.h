/* SPDX-License-Identifier: MIT */
/*
 * Threads past their clean-up: destructors of thread-local objects and pthread keys may allocate
 * and free after the thread's heap has been given up. They share one heap under a lock
 * (PS_RANK_LATE), so nothing is leaked and nothing has to run again. Slow, and meant to be.
 */
#ifndef PS_HEAP_LATE_H
#define PS_HEAP_LATE_H

#include "pools/engine/small/span.h"

#include <stddef.h>

/* As malloc. NULL with errno ENOMEM. */
void *ps_late_alloc(size_t bytes);

/* Frees a block of a span without a heap of one's own: handed to the owner at once. */
void ps_late_free(struct ps_span *span, void *block);

/* In the child of a fork, by its only thread. Returns the shared heap, if it is still in use. */
struct ps_heap;
const struct ps_heap *ps_late_fork_child(void);

#endif
