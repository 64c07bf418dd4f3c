/* SPDX-License-Identifier: MIT */
/*
 * Calls of threads without a heap: before this library has been relocated, before the engine has
 * started, before the thread's first allocation, and after its clean-up. These functions
 * distinguish the cases for all entry points. Rare: reached only from slow paths, when the thread's
 * words have no heap.
 *
 * After thread exit: destructors of thread-local objects and pthread keys may allocate after the
 * thread's heap has been given up. These calls share one heap under a lock (PS_RANK_EXITED), so
 * that nothing is leaked and no further clean-up is needed. Slow by design. Their frees are
 * transferred to the owner at once (ps_remote_free_at_once).
 *
 * Before relocation: another library's IFUNC resolver may call malloc while ld.so is still
 * relocating. No GOT entry is valid then, including the TLS offset, so accesses to ps_thread reach
 * the thread control block itself. The fast path tolerates that because of the contents of that
 * block in a process with one thread: `fast_limit` and `own`, at 24 and 32, read as zero, so malloc
 * takes the slow path. `streak_next` at 16 and `key` at 0 read as the address of the thread control
 * block, which is neither a block nor a span's key. So free takes the slow path too. `x_busy`,
 * which both write, is at 56, a word that libc no longer uses. Every slow path tests
 * ps_bootstrap_is_over first and serves such calls from chunks that are never reused.
 *
 * On processors that fetch the TLS offset by a call, this does not arise. No locks then: one thread
 * exists. Calls nothing of libc.
 *
 * Results and errors are those of the functions of fast_path.h and slow_path.h. Callers:
 * slow_path.c, start.c, stray.c, shim/. Any thread.
 */
#ifndef PS_HEAP_DETACHED_H
#define PS_HEAP_DETACHED_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/small/span.h"

#include <stdbool.h>
#include <stddef.h>

/* False before relocation; otherwise starts the engine if necessary. */
bool ps_detached_has_started(void);

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

/* ---- before relocation ---- */

#define PS_BOOTSTRAP_ALIGN 16

/* A pointer that is correct only after relocation. */
extern PS_HIDDEN void *volatile ps_bootstrap_probe;

/* True once this library has been relocated. */
bool ps_bootstrap_is_over(void);

/* Allocates zeroed memory that is never reused; NULL when it is exhausted; preserves errno. align:
 * power of two. */
void *ps_bootstrap_alloc(size_t bytes, size_t align);

/* As realloc, for a block from here, before relocation. */
void *ps_bootstrap_resize(const void *block, size_t bytes);

/* Size of a block from here; 0 for any other address. */
size_t ps_bootstrap_usable(const void *block);

#endif
