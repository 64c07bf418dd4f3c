/* SPDX-License-Identifier: MIT */
/*
 * What a caller says of a block that it frees, held against the block where blocks are hardened.
 * Called by the shim before the free; blocks are not NULL. Any thread that holds the block. No
 * locks.
 */
#ifndef PS_HARDEN_PROMISE_H
#define PS_HARDEN_PROMISE_H

#include "pools/engine/heap/alloc.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/resize.h"

/* The block was asked for with this size and alignment, a power of two, or the process ends. From
 * level 1 on. */
void ps_block_check_size(const void *block, size_t bytes, size_t align);

/* Which functions a block was made by, or is freed by. From level 2 on. */
void ps_block_set_family(void *block, enum ps_family family);

/* The block was made by this family, or the process ends. It is malloc's from then on. */
void ps_block_check_family(void *block, enum ps_family family);

#endif
