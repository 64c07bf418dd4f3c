/* SPDX-License-Identifier: MIT */
/*
 * Memory for the engine's own structures, away from the program's blocks so that an overflow of a
 * block cannot reach them. Never freed: heaps are recycled by their registry, map leaves live for
 * ever. Zeroed. Any thread; own lock (PS_RANK_METADATA).
 */
#ifndef PS_PAGE_METADATA_H
#define PS_PAGE_METADATA_H

#include <stddef.h>
#include <stdint.h>

/* A piece of a shared mapping. bytes: 1..64 KiB, rounded up to 128. NULL when memory is out. */
void *ps_metadata_take(size_t bytes);

/* A mapping of its own, for large tables that are touched sparsely. bytes: multiple of 64 KiB. */
void *ps_metadata_map(size_t bytes);

/* Address space taken so far, in bytes. */
uint64_t ps_metadata_bytes(void);

/* In the child of a fork, by its only thread. */
void ps_metadata_fork_child(void);

#endif
