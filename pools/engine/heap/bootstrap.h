/* SPDX-License-Identifier: MIT */
/*
 * Allocation before this library has been relocated: another library's IFUNC resolver may call
 * malloc while ld.so is still relocating. No GOT entry is valid then, including the TLS offset, so
 * accesses to ps_thread reach the thread control block itself. The fast path tolerates that because
 * of the contents of that block in a process with one thread: `heap` and `own`, at 24 and 32, read
 * as zero, so malloc takes the slow path; `streak_next` at 16 and `key` at 0 read as the block's
 * own address, which is neither a block nor a span's key, so free takes it too. `x_busy`, which
 * both write, is at 56, a word that libc no longer uses. Every slow path tests ps_bootstrap_is_over
 * first and serves such calls from chunks that are never reused.
 *
 * On processors that fetch the TLS offset by a call, this does not arise. No locks: one thread
 * exists. Calls nothing.
 */
#ifndef PS_HEAP_BOOTSTRAP_H
#define PS_HEAP_BOOTSTRAP_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

#define PS_BOOTSTRAP_ALIGN 16

/* A pointer that is correct only after relocation. */
extern PS_HIDDEN void *volatile ps_bootstrap_probe;

/* True once this library has been relocated. */
bool ps_bootstrap_is_over(void);

/* Allocates zeroed memory that is never reused; NULL when it is exhausted; errno stays unchanged.
 * align: power of two. */
void *ps_bootstrap_alloc(size_t bytes, size_t align);

/* As realloc, for a block from here, before relocation. */
void *ps_bootstrap_resize(const void *block, size_t bytes);

/* Size of a block from here; 0 for any other address. */
size_t ps_bootstrap_usable(const void *block);

#endif
