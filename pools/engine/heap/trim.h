/* SPDX-License-Identifier: MIT */
/*
 * Giving memory back on demand. Any thread.
 */
#ifndef PS_HEAP_TRIM_H
#define PS_HEAP_TRIM_H

#include "pools/engine/heap/heap.h"

/*
 * Gives back everything that the calling thread's heap and the page cache do not need, but about
 * keep_bytes of it; also the memory of other threads' spans whose blocks have all come back.
 * Returns whether any memory went back to the OS. Cost: a madvise per free run.
 */
bool ps_heap_trim(size_t keep_bytes);

#endif
