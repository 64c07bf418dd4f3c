/* SPDX-License-Identifier: MIT */
/*
 * Memory for the engine's own structures, apart from the program's blocks, so that an overflow of a
 * block cannot reach them. Never freed: leaves of the map are
 * permanent. Zeroed. Any thread; own lock (PS_RANK_METADATA).
 */
#ifndef PS_PAGE_METADATA_H
#define PS_PAGE_METADATA_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocates from a shared mapping. bytes: 1..64 KiB, rounded up to 128; aligned to 128, from 4 KiB
 * on to that. NULL when memory is exhausted. */
void *ps_metadata_take(size_t bytes);

/* Allocates a separate mapping, for large tables that are touched sparsely. bytes: multiple of 64
 * KiB. */
void *ps_metadata_map(size_t bytes);

/* The same without access, which ps_os_protect gives to parts of it. */
void *ps_metadata_map_closed(size_t bytes);

/* The same as ps_metadata_map at an address; false when something is there, or the system has no
 * such call. bytes: multiple of the page. */
bool ps_metadata_map_at(void *base, size_t bytes);

/* Address space taken so far, in bytes. Written under the lock; read from outside the process, too:
 * record/layout.h. */
extern PS_HIDDEN uint64_t ps_metadata_x_bytes;

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_metadata_fork_child(void);

#endif
