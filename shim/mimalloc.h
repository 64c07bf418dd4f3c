/* SPDX-License-Identifier: MIT */
/*
 * mimalloc's interface, version 2, served from this heap: a program that is linked with -lmimalloc
 * then has one heap. mimalloc.c: allocation; mimalloc_heap.c: heaps as objects, which are
 * partitions of the heap (heap/partition_path.h); mimalloc_state.c: options, statistics, handlers;
 * cxx_mimalloc.c: the forms of operator new. docs/mimalloc.md has the differences.
 *
 * Any thread, not in signal handlers. No locks of its own.
 */
#ifndef PS_SHIM_MIMALLOC_H
#define PS_SHIM_MIMALLOC_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* mi_heap_t: a partition, or ps_mi_backing, which is the heap of malloc. */
struct ps_mi_heap;
extern PS_HIDDEN char ps_mi_backing[];

/* The heap of mi_malloc in the calling thread. */
struct ps_mi_heap *ps_mi_default(void);

/* A request: (block + offset) is to be a multiple of align, a power of two. */
struct ps_mi_request {
    size_t bytes;
    size_t align;
    size_t offset;
    bool is_zeroed; /* up to the block's usable size */
};

/* NULL when memory is exhausted, or the request or the heap is invalid; calls the error handler. */
void *ps_mi_alloc(struct ps_mi_heap *heap, const struct ps_mi_request *request);

/* Makes a block of the request from another one. block: NULL, or live; unchanged if the result is
 * NULL. The result is in `heap`. is_zeroed: of the part beyond the old usable size. */
void *ps_mi_resize(struct ps_mi_heap *heap, void *block, const struct ps_mi_request *request);

/* count * bytes; false: it overflows, which was reported to the error handler. */
bool ps_mi_multiply(size_t count, size_t bytes, size_t *product);

/* Usable bytes; 0 of NULL. */
size_t ps_mi_usable(const void *block);

/* ---- mimalloc_heap.c ---- */

/* Blocks whose address is not at the start of what was allocated, because of an offset, lie in
 * partitions. ps_mi_start_of: where the block starts that malloc's functions know. */
void *ps_mi_start_of(const void *block);

/* Memory of a heap, at a multiple of align; NULL with errno. has_offset: the address that the
 * program gets is another one. */
void *ps_mi_take(struct ps_mi_heap *heap, const struct ps_mi_request *request, bool has_offset);

/* True of a live block of that heap. */
bool ps_mi_is_in(const struct ps_mi_heap *heap, const void *start);

/* ---- mimalloc_state.c ---- */

/* Sets errno, and calls the error handler, if there is one, with mimalloc's number. */
void ps_mi_fail(int errno_value, int error);

#endif
