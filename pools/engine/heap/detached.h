/* SPDX-License-Identifier: MIT */
/*
 * Calls of threads without a heap. They come before this library has been relocated (bootstrap.h),
 * before the engine has started, before the thread's first allocation, and after its clean-up
 * (exited.h): which of these it is, is found out here, once for all entry points. Rare: the fast
 * path and its slow sides end here only where the thread's words have no heap.
 *
 * Results and errors are those of the functions of fast_path.h, alloc.h and resize.h. Any thread;
 * locks only through the files below.
 */
#ifndef PS_HEAP_DETACHED_H
#define PS_HEAP_DETACHED_H

#include "pools/engine/small/span.h"

void *ps_detached_alloc(size_t bytes);
void *ps_detached_zalloc(size_t bytes);
void *ps_detached_alloc_aligned(size_t bytes, size_t align);

/* As ps_mode_entry.free_block; block may be NULL. */
void ps_detached_free(struct ps_span *span, void *block, uintptr_t owner_key);

/* block: not NULL. */
void *ps_detached_resize(void *block, size_t bytes);
size_t ps_detached_usable(const void *block);

#endif
