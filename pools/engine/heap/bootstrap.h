/* SPDX-License-Identifier: MIT */
/*
 * Before this library has been relocated: another library's IFUNC resolver may call malloc while
 * ld.so is still working its way towards us. No GOT entry is valid then, the TLS offset among
 * them, so ps_thread reads the thread control block itself. The fast path survives that because of
 * what stands there in a process with one thread: `heap` and `own`, its words at 24 and 32, are
 * zero, so that malloc takes the slow path; `streak_next` at 16 and `key` at 0 are the block's own
 * address, which is no block and no span's key, so that free takes it too. `x_busy`, which both
 * write, is at 56, where libc has a word that it no longer uses. Every slow path asks
 * ps_bootstrap_is_over first and serves such calls from chunks that are never reused.
 *
 * On processors where the TLS offset is fetched by a call there is no such moment to survive.
 * No locks: one thread exists. Calls nothing.
 */
#ifndef PS_HEAP_BOOTSTRAP_H
#define PS_HEAP_BOOTSTRAP_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

#define PS_BOOTSTRAP_ALIGN 16

/* A pointer that is right only after relocation, and what it should be. */
extern PS_HIDDEN void *volatile ps_bootstrap_probe;

/* True once this library has been relocated. */
bool ps_bootstrap_is_over(void);

/* Zeroed memory that is never reused; NULL when it is used up, errno is not touched. align: power
 * of two. */
void *ps_bootstrap_alloc(size_t bytes, size_t align);

/* As realloc of a block made here, still before relocation. */
void *ps_bootstrap_resize(const void *block, size_t bytes);

/* Size of a block made here; 0 for any other address. */
size_t ps_bootstrap_usable(const void *block);

#endif
