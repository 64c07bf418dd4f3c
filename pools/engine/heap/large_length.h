/* SPDX-License-Identifier: MIT */
/*
 * The length of runs and mappings that are blocks, where they are. slot: the block's; bytes: whole
 * pages, unless stated. Callers: large.c, large_path.c. The thread that has the block. Locks only
 * through the page layer.
 */
#ifndef PS_HEAP_LARGE_LENGTH_H
#define PS_HEAP_LARGE_LENGTH_H

#include "pools/engine/heap/large.h"

/* Lengthens a run. False: what lies after it is in use. */
bool ps_large_extend_run(struct ps_slot *slot, size_t bytes, bool *is_clean);

/* Lengthens or shortens the block of a run. NULL: it is unchanged. */
void *ps_large_resize_run(struct ps_slot *slot, size_t bytes);

/* Drops the memory after the first `bytes` of a mapping that the system does not shorten. */
void ps_large_drop_behind(const struct ps_run *run, size_t bytes);

/* Resizes a block of a partition that fits its run, and uses half of it. NULL: it is unchanged.
 * is_guarded: what lies after the block is inaccessible; it is never resized then. */
void *ps_large_resize_apart(struct ps_slot *slot, size_t bytes, bool is_guarded);

/* Grows or shrinks a run or a mapping; false: it is unchanged. bytes: any. Not for hardened
 * blocks. */
bool ps_large_set_length(struct ps_slot *slot, size_t bytes);

#endif
