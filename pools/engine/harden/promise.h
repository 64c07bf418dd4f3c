/* SPDX-License-Identifier: MIT */
/*
 * Checks of a caller's claims about a block that it frees, while blocks are hardened. Called by the
 * shim before the free; blocks are not NULL. Any thread that owns the block. No locks.
 */
#ifndef PS_HARDEN_PROMISE_H
#define PS_HARDEN_PROMISE_H

#include "pools/engine/heap/block.h"
#include "pools/engine/heap/large.h"

/* True where sizes are checked: from level 1 on, and where blocks have memory tags. Written once.
 */
extern PS_HIDDEN bool ps_block_has_promises;

/* Aborts unless the block was requested with this size and alignment, a power of two. */
void ps_block_check_size(const void *pointer, size_t bytes, size_t align);

/* Stores the family of functions that made a block. From level 2 on. */
void ps_block_set_family(void *block, enum ps_family family);

/* Aborts unless the block was made by this family. It counts as malloc's afterwards. */
void ps_block_check_family(void *block, enum ps_family family);

#endif
