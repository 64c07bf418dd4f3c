/* SPDX-License-Identifier: MIT */
/*
 * Allocation before this library is relocated.
 *
 * Another library's IFUNC resolver may call malloc while ld.so is still relocating. No entry of the
 * GOT is valid then, including the TLS offset, so accesses to ps_front_thread reach the thread
 * control block itself. The fast path tolerates that because of the contents of that block in a
 * process with one thread: `fast_limit` at 24 reads as zero, so malloc takes the slow path.
 * `streak_next` at 0 reads as the address of the thread control block, which is no block. The tag
 * of every address is 0, so free takes the slow path, too. Slow paths test ps_bootstrap_is_over and
 * serve such calls from chunks that are never reused.
 *
 * On processors that fetch the TLS offset by a call, this does not arise. No locks: one thread
 * exists. Calls nothing of libc. Callers: block.c, front_path.c, stray.c, shim/.
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

/* Allocates zeroed memory that is never reused; NULL when it is exhausted; preserves errno. align:
 * power of two. */
void *ps_bootstrap_alloc(size_t bytes, size_t align);

/* Frees nothing. Reports an address that is no block from here. block: not NULL. */
void ps_bootstrap_free(const void *block);

/* As realloc, for a block from here, before relocation. */
void *ps_bootstrap_resize(const void *block, size_t bytes);

/* Size of a block from here; 0 for any other address. */
size_t ps_bootstrap_usable(const void *block);

#endif
