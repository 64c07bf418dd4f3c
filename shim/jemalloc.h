/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's functions for blocks, jemalloc.c: prototypes of its version 5. Programs have them from
 * its header. Any thread.
 */
#ifndef PS_SHIM_JEMALLOC_H
#define PS_SHIM_JEMALLOC_H

#include <stddef.h>

#define PS_JEMALLOC_QUANTUM 16 /* bytes that every longer block is aligned to */

void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t sallocx(const void *block, int flags);
void dallocx(void *block, int flags);
void sdallocx(void *block, size_t size, int flags);
size_t nallocx(size_t size, int flags);

#endif
