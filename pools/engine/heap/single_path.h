/* SPDX-License-Identifier: MIT */
/*
 * The refill of modes in which no thread has a window: blocks pass one by one from the store to
 * fronts, prepared by the mode. Callers: harden/. Any thread. No locks of its own.
 */
#ifndef PS_HEAP_SINGLE_PATH_H
#define PS_HEAP_SINGLE_PATH_H

#include <stddef.h>
#include <stdint.h>

/* Called with blocks of one class that have left the store, 1 to PS_STORE_BATCH, before any of them
 * is in a front. May change their order: the first one is granted. */
typedef void ps_single_prepare(void **blocks, size_t count);

/*
 * Serves a request whose class has no block in the thread's front: fills the front from the store,
 * or from a new slab, and takes a block. When the system refuses memory, takes one of the nearest
 * longer class that has any: *class_index becomes that class. aligned_bytes: the requested bytes,
 * or the length of the block if an alignment was requested. NULL with errno ENOMEM.
 */
void *ps_single_refill(uint32_t *class_index, size_t bytes, size_t aligned_bytes,
                       ps_single_prepare *prepare);

#endif
